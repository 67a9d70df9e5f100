//! The border that both C libraries have: why a call fails, the panic boundary, values in and out by pointer. Each library
//! brings codes of its own, under the names that are used here.

use crate::error::{INVALID, PANIC, text_of};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why an entry fails: a code, and more about it where there is more to say.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: c_int,
    more: Option<Box<str>>,
}

impl Failure {
    pub(crate) fn new(code: c_int, more: impl Into<Box<str>>) -> Failure {
        Failure { code, more: Some(more.into()) }
    }
}

/// A bare code: nothing is allocated, for what is routine.
impl From<c_int> for Failure {
    fn from(code: c_int) -> Failure {
        Failure { code, more: None }
    }
}

/// Copies a value out to C.
///
/// # Safety
/// `to` is null or valid for a write.
#[inline]
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(INVALID.into());
    }
    // SAFETY: not null, and then valid for a write by this function's contract; aligned or not.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Copies a value in from C.
///
/// # Safety
/// `from` is null or valid for a read of a `T`.
#[inline]
pub(crate) unsafe fn get<T: Copy>(from: *const T) -> Result<T, Failure> {
    if from.is_null() {
        return Err(INVALID.into());
    }
    // SAFETY: not null, and then valid for a read by this function's contract; aligned or not.
    Ok(unsafe { from.read_unaligned() })
}

/// A C string's text.
///
/// # Safety
/// `text` is null, or ends with a zero byte and does not change while the result lives.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: not null, so a C string by this function's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

enum Last {
    Code(c_int),
    Text(CString),
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last::Code(0)) };
}

fn remember(failure: Failure) -> c_int {
    let last = match failure.more {
        // A zero byte would end the text early in C: up to there, then.
        Some(more) => Last::Text(CString::new(more.split('\0').next().unwrap_or("")).unwrap_or_default()),
        None => Last::Code(failure.code),
    };
    // A thread that is ending has no last error any more.
    let _ = LAST.try_with(|l| l.replace(last));
    failure.code
}

/// The text of this thread's last failure, valid until its next.
pub(crate) fn last_text() -> *const c_char {
    LAST.try_with(|l| match &*l.borrow() {
        Last::Code(code) => text_of(*code).as_ptr(),
        Last::Text(text) => text.as_ptr(),
    })
    .unwrap_or(text_of(0).as_ptr())
}

/// The panic boundary: what C gets is a number, whatever happens inside.
#[inline]
pub(crate) fn guard(work: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    // A panic under a handle's lock breaks that handle, so nothing half done is seen afterwards.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => value,
        Ok(Err(failure)) => remember(failure),
        Err(thrown) => {
            let more = thrown.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let more = more.or_else(|| thrown.downcast_ref::<String>().cloned()).unwrap_or_default();
            // What was thrown may throw again when it is dropped.
            std::mem::forget(thrown);
            remember(Failure::new(PANIC, format!("a bug in the library: {more}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_panic_leaves_and_its_text_stays() {
        assert_eq!(guard(|| panic!("on {}", "purpose")), PANIC);
        // SAFETY: `last_text` gives a C string that lives until this thread's next failure.
        let text = unsafe { CStr::from_ptr(last_text()) };
        assert_eq!(text, c"a bug in the library: on purpose");
        assert_eq!(guard(|| Ok(7)), 7);
        assert_eq!(guard(|| Err(Failure::new(INVALID, "one\0two"))), INVALID);
        // SAFETY: as above.
        assert_eq!(unsafe { CStr::from_ptr(last_text()) }, c"one");
    }
}
