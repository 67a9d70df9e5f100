//! What `dev.barewire.Native` declares. Results are numbers: negative ones are `BW_ERR_...`, whose text `lastError` has for the
//! thread that made the call. Java's own wrappers check every argument, and a client is a ticket, so that nothing here can crash a
//! JVM by being called late.

use barewire_native::{BW_ERR_INVALID, Claim, Failed, Result, Ticket, attach, version};
use jni::JNIEnv;
use jni::objects::{JByteArray, JByteBuffer, JClass, JLongArray, JObject, JString};
use jni::sys::{jbyteArray, jint, jlong, jstring};
use std::cell::RefCell;

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

fn ticket(client: jlong) -> Ticket {
    Ticket(client as usize)
}

/// A result as Java has it. No panic crosses into the JVM.
fn told(work: impl FnOnce() -> Result<i64>) -> jlong {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    match done.unwrap_or_else(|_| Err(failed("a bug in the native part"))) {
        Ok(n) => n,
        Err(Failed { code, text }) => {
            LAST.with(|last| *last.borrow_mut() = text);
            jlong::from(code)
        }
    }
}

fn failed(text: &str) -> Failed {
    Failed { code: BW_ERR_INVALID, text: text.to_owned() }
}

fn of_jvm<T>(done: jni::errors::Result<T>) -> Result<T> {
    done.map_err(|e| failed(&e.to_string()))
}

fn string(env: &mut JNIEnv<'_>, text: &JString<'_>) -> Result<String> {
    Ok(of_jvm(env.get_string(text))?.into())
}

/// The bytes of a direct buffer between two places.
#[allow(clippy::mut_from_ref, reason = "the bytes are the JVM's and not the reference's")]
fn direct<'a>(env: &JNIEnv<'_>, buffer: &'a JByteBuffer<'_>, at: jint, len: jint) -> Result<&'a mut [u8]> {
    let (at, len) = (at as usize, len as usize);
    let base = of_jvm(env.get_direct_buffer_address(buffer))?;
    let room = of_jvm(env.get_direct_buffer_capacity(buffer))?;
    if at.checked_add(len).is_none_or(|end| end > room) {
        return Err(failed("outside the buffer"));
    }
    // SAFETY: the JVM's own address and capacity; the buffer is held by the caller for the call, and its bytes are the caller's to
    // keep others from.
    Ok(unsafe { std::slice::from_raw_parts_mut(base.add(at), len) })
}

/// What is done with bytes: 0 send, 1 request (number: microseconds), 2 respond (number: the request's).
fn act(op: jint, client: jlong, flow: jlong, number: jlong, data: &[u8]) -> Result<i64> {
    let (client, flow, number) = (ticket(client), flow as u64, number as u64);
    match op {
        0 => client.send(flow, data).map(i64::from),
        1 => client.request(flow, data, number).map(|n| n as i64),
        2 => client.respond(flow, number, data).map(i64::from),
        _ => Err(failed("no such call")),
    }
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_barewire_Native_attach(
    mut env: JNIEnv<'_>,
    _: JClass<'_>,
    name: JString<'_>,
    socket: JString<'_>,
    unanswered_max: jint,
    out: JLongArray<'_>,
) -> jlong {
    told(|| {
        let name = string(&mut env, &name)?;
        let socket = if socket.is_null() { None } else { Some(string(&mut env, &socket)?) };
        let client = attach(&name, socket.as_deref(), unanswered_max as u32)?;
        of_jvm(env.set_long_array_region(&out, 0, &[client.0 as jlong]))?;
        Ok(0)
    })
}

macro_rules! plain {
    ($($java:ident($($arg:ident: $kind:ty),*) = $work:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "system" fn $java(_: JNIEnv<'_>, _: JClass<'_>, client: jlong, $($arg: $kind),*) -> jlong {
            told(|| ($work)(ticket(client), $($arg),*))
        }
    )*};
}

plain! {
    Java_dev_barewire_Native_free() = |c: Ticket| c.free().map(i64::from);
    Java_dev_barewire_Native_wake() = |c: Ticket| c.wake().map(i64::from);
    Java_dev_barewire_Native_listen(port: jint, token: jlong) =
        |c: Ticket, port: jint, token: jlong| c.listen_start(port as u16, token as u64).map(i64::from);
    Java_dev_barewire_Native_cancel(token: jlong) = |c: Ticket, token: jlong| c.cancel(token as u64).map(i64::from);
    Java_dev_barewire_Native_close(flow: jlong) = |c: Ticket, flow: jlong| c.close(flow as u64).map(i64::from);
    Java_dev_barewire_Native_reset(flow: jlong) = |c: Ticket, flow: jlong| c.reset(flow as u64).map(i64::from);
    Java_dev_barewire_Native_requestCancel(request: jlong) =
        |c: Ticket, request: jlong| c.request_cancel(request as u64).map(i64::from);
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_barewire_Native_connect(
    mut env: JNIEnv<'_>,
    _: JClass<'_>,
    client: jlong,
    remote: JString<'_>,
    unordered: jint,
    token: jlong,
) -> jlong {
    told(|| {
        let remote = string(&mut env, &remote)?;
        ticket(client).connect(&remote, unordered != 0, token as u64).map(i64::from)
    })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "numbers cross the border, and no objects")]
extern "system" fn Java_dev_barewire_Native_act(
    env: JNIEnv<'_>,
    _: JClass<'_>,
    op: jint,
    client: jlong,
    flow: jlong,
    number: jlong,
    data: JByteArray<'_>,
    at: jint,
    len: jint,
) -> jlong {
    told(|| {
        // Small ones need no memory of their own.
        let (mut small, mut large) = ([0i8; 2048], Vec::new());
        let len = usize::try_from(len).map_err(|_| failed("a negative length"))?;
        let bytes = if len <= small.len() {
            &mut small[..len]
        } else {
            large.resize(len, 0);
            &mut large[..]
        };
        of_jvm(env.get_byte_array_region(&data, at, bytes))?;
        // SAFETY: bytes with a sign are bytes.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast::<u8>(), bytes.len()) };
        act(op, client, flow, number, bytes)
    })
}

#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "numbers cross the border, and no objects")]
extern "system" fn Java_dev_barewire_Native_actDirect(
    env: JNIEnv<'_>,
    _: JClass<'_>,
    op: jint,
    client: jlong,
    flow: jlong,
    number: jlong,
    data: JByteBuffer<'_>,
    at: jint,
    len: jint,
) -> jlong {
    told(|| act(op, client, flow, number, direct(&env, &data, at, len)?))
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_barewire_Native_fail(
    mut env: JNIEnv<'_>,
    _: JClass<'_>,
    client: jlong,
    flow: jlong,
    request: jlong,
    code: jint,
    why: JString<'_>,
) -> jlong {
    told(|| {
        let why = string(&mut env, &why)?;
        ticket(client).fail(flow as u64, request as u64, code as u16, &why).map(i64::from)
    })
}

/// 1 with `out` filled in (kind, reason, flow, token, the message's flow, offset and length), 0 when the time was over.
#[unsafe(no_mangle)]
extern "system" fn Java_dev_barewire_Native_waitEvent(
    env: JNIEnv<'_>,
    _: JClass<'_>,
    client: jlong,
    timeout_ms: jint,
    out: JLongArray<'_>,
) -> jlong {
    told(|| {
        let Some(e) = ticket(client).wait_event(timeout_ms)? else { return Ok(0) };
        let m = e.message;
        let all = [
            e.kind.into(),
            e.reason.into(),
            e.flow as i64,
            e.token as i64,
            m.flow as i64,
            m.offset.into(),
            m.len.into(),
        ];
        of_jvm(env.set_long_array_region(&out, 0, &all))?;
        Ok(1)
    })
}

fn claim(flow: jlong, offset: jlong, len: jlong) -> Claim {
    Claim { flow: flow as u64, offset: offset as u32, len: len as u32 }
}

/// The bytes of a message from `head` on, and it is released; null, and its code in `out`, when there are none.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "numbers cross the border, and no objects")]
extern "system" fn Java_dev_barewire_Native_take(
    env: JNIEnv<'_>,
    _: JClass<'_>,
    client: jlong,
    flow: jlong,
    offset: jlong,
    len: jlong,
    head: jint,
    out: JLongArray<'_>,
) -> jbyteArray {
    let mut array = std::ptr::null_mut();
    let code = told(|| {
        let bytes = ticket(client).take(claim(flow, offset, len), head as usize)?;
        array = of_jvm(env.byte_array_from_slice(&bytes))?.into_raw();
        Ok(0)
    });
    let _ = env.set_long_array_region(&out, 0, &[code]);
    array
}

/// As `take`, into a direct buffer from `at` on; how many bytes.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "numbers cross the border, and no objects")]
extern "system" fn Java_dev_barewire_Native_takeDirect(
    env: JNIEnv<'_>,
    _: JClass<'_>,
    client: jlong,
    flow: jlong,
    offset: jlong,
    len: jlong,
    head: jint,
    into: JByteBuffer<'_>,
    at: jint,
) -> jlong {
    told(|| {
        let body = (len - jlong::from(head)).max(0);
        let into = direct(&env, &into, at, jint::try_from(body).map_err(|_| failed("too long"))?)?;
        ticket(client).take_into(claim(flow, offset, len), head as usize, into).map(|n| n as i64)
    })
}

/// Who is at the other end of a flow: the key's bytes, and the name's after them. Null: nobody (0 in `out`), or a failure (its code).
#[unsafe(no_mangle)]
extern "system" fn Java_dev_barewire_Native_peer(
    env: JNIEnv<'_>,
    _: JClass<'_>,
    client: jlong,
    flow: jlong,
    out: JLongArray<'_>,
) -> jbyteArray {
    let mut array = std::ptr::null_mut();
    let code = told(|| {
        if let Some(peer) = ticket(client).peer(flow as u64)? {
            let bytes = [&peer.key, peer.name.as_bytes()].concat();
            array = of_jvm(env.byte_array_from_slice(&bytes))?.into_raw();
        }
        Ok(0)
    });
    let _ = env.set_long_array_region(&out, 0, &[code]);
    array
}

fn java_text(env: &JNIEnv<'_>, text: &str) -> jstring {
    env.new_string(text).map_or(JObject::null().into_raw(), |s| s.into_raw())
}

/// Of this thread's last failure.
#[unsafe(no_mangle)]
extern "system" fn Java_dev_barewire_Native_lastError(env: JNIEnv<'_>, _: JClass<'_>) -> jstring {
    java_text(&env, &LAST.with(|last| last.borrow().clone()))
}

#[unsafe(no_mangle)]
extern "system" fn Java_dev_barewire_Native_version(env: JNIEnv<'_>, _: JClass<'_>) -> jstring {
    java_text(&env, &version())
}
