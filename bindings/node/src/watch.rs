//! A client's events in Node's own event loop: no thread stands between the daemon's ring and JavaScript.
//!
//! Handles of libuv, which is part of Node: one polls the client's descriptor, one asks before each of the loop's sleeps whether it may
//! sleep and has the daemon ring, and a clock ends that sleep for a request's deadline. Events go to JavaScript in bursts, each in one
//! call, after which Node runs what the promises' owners have to do. All of it is on the thread of the loop.
//!
//! What an event is goes over in numbers, through an array that both sides have: objects would cost more than all the rest.

use barewire_native::{Failed, Ticket, addr_text};
use napi::sys;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::ptr;

/// Events in one call of JavaScript.
const BURST: usize = 64;
/// Numbers of an event: kind (negative: an end's code), reason, flow, token, offset and length of its message.
const NUMBERS: usize = 6;
/// Numbers of the array: the events', then what JavaScript wants (Node is to stay for this client), and what is so.
const BOARD: usize = BURST * NUMBERS + 2;
const WANTED: usize = BURST * NUMBERS;
const HELD: usize = WANTED + 1;
/// Bursts before others of the loop have their turn.
const TURNS: usize = 16;
/// How long the loop sleeps at most while the ring of requests is full, whose emptying does not ring.
const RING_CHECK_MS: u64 = 1;

/// A handle of libuv, of the size that libuv says.
type Handle = *mut c_void;
type OnHandle = unsafe extern "C" fn(Handle);
type OnPoll = unsafe extern "C" fn(Handle, c_int, c_int);

const UV_POLL: c_int = 8;
const UV_PREPARE: c_int = 9;
const UV_TIMER: c_int = 13;
const UV_READABLE: c_int = 1;

// The ABI of libuv 1, which Node exports.
unsafe extern "C" {
    fn uv_handle_size(kind: c_int) -> usize;
    fn uv_handle_set_data(handle: Handle, data: *mut c_void);
    fn uv_handle_get_data(handle: Handle) -> *mut c_void;
    fn uv_ref(handle: Handle);
    fn uv_unref(handle: Handle);
    fn uv_close(handle: Handle, closed: Option<OnHandle>);
    fn uv_poll_init(on: *mut sys::uv_loop_s, handle: Handle, fd: c_int) -> c_int;
    fn uv_poll_stop(handle: Handle) -> c_int;
    fn uv_prepare_stop(handle: Handle) -> c_int;
    fn uv_poll_start(handle: Handle, events: c_int, call: Option<OnPoll>) -> c_int;
    fn uv_prepare_init(on: *mut sys::uv_loop_s, handle: Handle) -> c_int;
    fn uv_prepare_start(handle: Handle, call: Option<OnHandle>) -> c_int;
    fn uv_timer_init(on: *mut sys::uv_loop_s, handle: Handle) -> c_int;
    fn uv_timer_start(handle: Handle, call: Option<OnHandle>, timeout_ms: u64, repeat_ms: u64) -> c_int;
    fn uv_timer_stop(handle: Handle) -> c_int;
}

/// Memory of a handle, in words, which are aligned for anything in it, and libuv's to write.
type Memory = Box<[Cell<u64>]>;

/// The client's place in the loop. Handles point to it, so it stays where it is until they are closed.
struct Seat {
    env: sys::napi_env,
    sink: sys::napi_ref,
    ticket: Ticket,
    /// The array of both sides, and what keeps it.
    board: *const Cell<u64>,
    kept_board: sys::napi_ref,
    /// Of the burst that JavaScript has: the other ends of connections, or why the client ended.
    texts: RefCell<Vec<String>>,
    /// The poll, the prepare, the timer.
    handles: [Memory; 3],
    /// The daemon is to ring.
    is_armed: Cell<bool>,
    /// Nothing more is taken.
    is_over: Cell<bool>,
    /// Handles that are not closed yet.
    open: Cell<usize>,
}

/// Takes a client's events while it lives.
pub(crate) struct Watch(*mut Seat);

impl Watch {
    /// Calls `sink` with the number of events in `board` from the loop of `env` from now on. Called on the loop's thread, as are all that
    /// follow.
    pub(crate) fn start(
        env: sys::napi_env,
        ticket: Ticket,
        board: sys::napi_value,
        sink: sys::napi_value,
    ) -> napi::Result<Watch> {
        let fd = ticket.event_fd().map_err(|e| napi::Error::from_reason(e.text))?;
        // SAFETY: libuv says the size of a handle of each kind; the call has no other effect.
        let sizes = [UV_POLL, UV_PREPARE, UV_TIMER].map(|kind| unsafe { uv_handle_size(kind) });
        let mut on = ptr::null_mut();
        let (mut kept, mut kept_board) = (ptr::null_mut(), ptr::null_mut());
        let (mut kind, mut len, mut memory) = (0, 0, ptr::null_mut());
        // SAFETY: an environment and a value of the call that this is part of, and places for results.
        unsafe {
            napi::check_status!(sys::napi_get_uv_event_loop(env, &mut on))?;
            let (none, nowhere) = (ptr::null_mut(), ptr::null_mut());
            let seen =
                sys::napi_get_typedarray_info(env, board, &mut kind, &mut len, &mut memory, none, nowhere);
            napi::check_status!(seen)?;
            if kind != sys::TypedarrayType::biguint64_array || len != BOARD {
                return Err(napi::Error::from_reason(format!("the array has {BOARD} numbers of 64 bits")));
            }
            napi::check_status!(sys::napi_create_reference(env, sink, 1, &mut kept))?;
            napi::check_status!(sys::napi_create_reference(env, board, 1, &mut kept_board))?;
        }
        let seat = Box::into_raw(Box::new(Seat {
            env,
            sink: kept,
            ticket,
            board: memory.cast(),
            kept_board,
            texts: RefCell::default(),
            handles: sizes.map(|size| vec![Cell::new(0); size.div_ceil(8)].into_boxed_slice()),
            is_armed: Cell::new(false),
            is_over: Cell::new(false),
            open: Cell::new(3),
        }));
        // SAFETY: memory of each handle's size, which stays until all three are closed, on this thread's own loop. An open
        // descriptor is all that the first can fail for; a handle that did not begin is not closed.
        unsafe {
            let [poll, prepare, timer] = (*seat).handles();
            let begun = uv_poll_init(on, poll, fd);
            if begun != 0 {
                drop(Box::from_raw(seat));
                sys::napi_delete_reference(env, kept);
                sys::napi_delete_reference(env, kept_board);
                return Err(napi::Error::from_reason(format!("the event loop does not poll: {begun}")));
            }
            uv_prepare_init(on, prepare);
            uv_timer_init(on, timer);
            for handle in [poll, prepare, timer] {
                uv_handle_set_data(handle, seat.cast());
            }
            uv_prepare_start(prepare, Some(on_prepare));
            uv_poll_start(poll, UV_READABLE, Some(on_poll));
            for handle in [poll, prepare, timer] {
                uv_unref(handle);
            }
        }
        Ok(Watch(seat))
    }

    /// Lets the loop stay or end as JavaScript wants, without waiting for the loop's next sleep.
    pub(crate) fn hold(&self) {
        // SAFETY: the seat is there until `end`.
        unsafe { &*self.0 }.hold();
    }

    /// Of an event of the burst that JavaScript has.
    pub(crate) fn text(&self, at: usize) -> String {
        // SAFETY: as above.
        let seat = unsafe { &*self.0 };
        seat.texts.borrow().get(at).cloned().unwrap_or_default()
    }

    /// Nothing comes any more, and nothing of it touches the client's descriptor. The memory goes when the loop has let go of it.
    pub(crate) fn end(self) {
        // SAFETY: the seat is there, as this is its only owner and `closed` frees it after the last handle; handles are closed once.
        unsafe {
            let seat = &*self.0;
            seat.is_over.set(true);
            for handle in seat.handles() {
                uv_close(handle, Some(closed));
            }
            sys::napi_delete_reference(seat.env, seat.sink);
            sys::napi_delete_reference(seat.env, seat.kept_board);
        }
    }
}

impl Seat {
    fn handles(&self) -> [Handle; 3] {
        self.handles.each_ref().map(|memory| memory.as_ptr().cast_mut().cast())
    }

    /// # Safety
    /// A handle of a seat's that is not closed.
    unsafe fn of<'a>(handle: Handle) -> &'a Seat {
        // SAFETY: this function's contract: its data is the seat, which is there until all its handles are closed.
        unsafe { &*uv_handle_get_data(handle).cast::<Seat>() }
    }

    fn board(&self) -> &[Cell<u64>] {
        // SAFETY: an array of as many numbers, as was looked at, whose memory stays where it is while the reference keeps it; JavaScript
        // writes it on this thread only.
        unsafe { std::slice::from_raw_parts(self.board, BOARD) }
    }

    /// The loop stays for this client, or not, as the board says.
    fn hold(&self) {
        if self.is_over.get() {
            return;
        }
        let board = self.board();
        let wanted = board[WANTED].get();
        if board[HELD].replace(wanted) != wanted {
            let [poll, ..] = self.handles();
            // SAFETY: no handle is closed before it is over.
            unsafe { if wanted != 0 { uv_ref(poll) } else { uv_unref(poll) } }
        }
    }

    /// Takes what there is, and has the daemon ring for the next. How long the loop may sleep: `None`: for ever.
    fn settle(&self) -> Option<u64> {
        let mut has_looked = false;
        for _ in 0..TURNS {
            let burst = self.take();
            if burst == 0 {
                if self.is_over.get() {
                    return None;
                }
                match self.ticket.arm() {
                    Ok(true) => {
                        self.is_armed.set(true);
                        return self.sleep_max_ms();
                    }
                    // There is one. Or else the ring is full.
                    Ok(false) if !has_looked => has_looked = true,
                    _ => return Some(RING_CHECK_MS),
                }
                continue;
            }
            has_looked = false;
            self.tell(burst);
            // JavaScript may have closed the client.
            if self.is_over.get() {
                return None;
            }
        }
        Some(0)
    }

    fn sleep_max_ms(&self) -> Option<u64> {
        match self.ticket.sleep_max_ms() {
            Ok(i32::MAX) | Err(_) => None,
            Ok(ms) => Some(ms.unsigned_abs().into()),
        }
    }

    fn disarm(&self) {
        if self.is_armed.replace(false) {
            let _ = self.ticket.disarm();
        }
    }

    /// Puts up to a burst of events on the board, and says how many; the last one may be the client's end.
    fn take(&self) -> usize {
        let mut texts = self.texts.borrow_mut();
        texts.clear();
        let mut count = 0;
        while count < BURST && !self.is_over.get() {
            let place = &self.board()[count * NUMBERS..][..NUMBERS];
            match self.ticket.next_event() {
                Ok(Some(e)) => {
                    let m = e.message;
                    let numbers =
                        [e.kind.into(), e.reason.into(), e.flow, e.token, m.offset.into(), m.len.into()];
                    place.iter().zip(numbers).for_each(|(to, n)| to.set(n));
                    // Most events have none, and then no room for one is made.
                    if e.remote.family != 0 {
                        texts.resize(count + 1, String::new());
                        texts[count] = addr_text(&e.remote);
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    place[0].set(i64::from(e.code).cast_unsigned());
                    texts.resize(count, String::new());
                    texts.push(self.over(e));
                }
            }
            count += 1;
        }
        count
    }

    /// The descriptor of a daemon that is gone stays readable: nobody looks at it any more.
    fn over(&self, why: Failed) -> String {
        self.is_over.set(true);
        let [poll, prepare, timer] = self.handles();
        // SAFETY: no handle is closed before it is over.
        unsafe {
            uv_poll_stop(poll);
            uv_prepare_stop(prepare);
            uv_timer_stop(timer);
        }
        why.text
    }

    /// Calls JavaScript, and what waits for it in Node after that.
    fn tell(&self, burst: usize) {
        let env = self.env;
        // SAFETY: on the loop's thread, outside of any call, with scopes of its own for its values. The environment outlives the
        // handles, and so does the reference until `end`, after which nothing is told.
        unsafe {
            let mut scope = ptr::null_mut();
            if sys::napi_open_handle_scope(env, &mut scope) != sys::Status::napi_ok {
                return;
            }
            let (mut sink, mut global, mut out) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
            let mut told = ptr::null_mut();
            let there = sys::napi_get_reference_value(env, self.sink, &mut sink) == sys::Status::napi_ok
                && sys::napi_get_global(env, &mut global) == sys::Status::napi_ok
                && sys::napi_create_uint32(env, burst as u32, &mut told) == sys::Status::napi_ok;
            if there {
                let said = sys::napi_make_callback(env, ptr::null_mut(), global, sink, 1, &told, &mut out);
                if said == sys::Status::napi_pending_exception {
                    let mut thrown = ptr::null_mut();
                    sys::napi_get_and_clear_last_exception(env, &mut thrown);
                    sys::napi_fatal_exception(env, thrown);
                }
            }
            sys::napi_close_handle_scope(env, scope);
        }
    }
}

/// # Safety
/// libuv calls it, with a handle of a seat's that is not closed.
unsafe extern "C" fn on_poll(handle: Handle, _status: c_int, _events: c_int) {
    // SAFETY: this function's contract.
    let seat = unsafe { Seat::of(handle) };
    // What was rung is taken away first: the loop asks for levels.
    seat.is_armed.set(true);
    seat.disarm();
    let burst = seat.take();
    if burst != 0 {
        seat.tell(burst);
    }
}

/// # Safety
/// As of `on_poll`.
unsafe extern "C" fn on_prepare(handle: Handle) {
    // SAFETY: this function's contract.
    let seat = unsafe { Seat::of(handle) };
    if seat.is_over.get() {
        return;
    }
    let mut sleep_ms = None;
    if seat.is_armed.get() {
        sleep_ms = seat.sleep_max_ms();
        if sleep_ms == Some(0) {
            // A call since has left an event, or the daemon rings.
            seat.disarm();
        }
    }
    if !seat.is_armed.get() {
        sleep_ms = seat.settle();
        if seat.is_over.get() {
            return;
        }
    }
    seat.hold();
    // SAFETY: the seat is not over, so none of its handles is closed.
    unsafe {
        let [_, _, timer] = seat.handles();
        match sleep_ms {
            Some(ms) => uv_timer_start(timer, Some(on_timer), ms, 0),
            None => uv_timer_stop(timer),
        };
    }
}

/// # Safety
/// As of `on_poll`. It has ended the sleep, after which the other handle looks.
unsafe extern "C" fn on_timer(_: Handle) {}

/// # Safety
/// libuv calls it once for each handle of a seat's that was closed.
unsafe extern "C" fn closed(handle: Handle) {
    // SAFETY: the seat is there until its last handle has come here.
    unsafe {
        let seat = uv_handle_get_data(handle).cast::<Seat>();
        let left = (*seat).open.get() - 1;
        (*seat).open.set(left);
        if left == 0 {
            drop(Box::from_raw(seat));
        }
    }
}
