'use strict';
// Promises and iterators over the native part (src/lib.rs). Types and documentation: index.d.ts.

/** The file that BAREWIRE_NODE_LIBRARY names, or the package's own for this machine. */
const native = require(process.env.BAREWIRE_NODE_LIBRARY ?? `./native/linux-${process.arch}/barewire.node`);

class BarewireError extends Error {
  constructor(code, text) {
    super(text);
    this.name = new.target.name;
    this.code = code;
  }
}
class ClosedError extends BarewireError {}
class FullError extends BarewireError {}
class TooLargeError extends BarewireError {}
class DaemonGoneError extends BarewireError {}
class RefusedError extends BarewireError {}
class TimeoutError extends BarewireError {}
class SecurityError extends BarewireError {}
class FlowEndedError extends BarewireError {}
class Failure extends BarewireError {
  constructor(serverCode, text) {
    super(0, text);
    this.serverCode = serverCode;
  }
}

const BUSY = -3;
const AGAIN = -4;
const ACCEPTED = 3;
const REQUEST_HEAD = 16; // bytes before the body in the message of a request or an answer
const CLASSES = new Map([
  [-2, ClosedError],
  [AGAIN, FullError],
  [-5, TooLargeError],
  [-8, DaemonGoneError],
  [-9, TimeoutError],
  [-15, RefusedError],
  [-24, SecurityError],
]);
const NOT_CONNECTED = [
  '',
  'nobody listens there',
  'no room for another flow',
  'the peer does not answer',
  'the next hop does not answer, or there is no route',
  'given up',
  'the peer takes encrypted flows only',
  "the peer does not trust this host's key",
  'the peer has another key than the trusted one',
  'the peer does not encrypt',
  "this host does not trust the peer's key",
  'this user may not connect there',
];
// The array that both sides have (src/watch.rs).
const BURST = 64;
const NUMBERS = 6;
const WANTED = BURST * NUMBERS;
const HELD = WANTED + 1;
const KINDS = new Map([
  [3, 'accepted'],
  [4, 'message'],
  [9, 'closed'],
  [12, 'request'],
  [16, 'cancelled'],
]);
const CLOSED = Object.freeze({ LOCAL: 0, PEER: 1, RESET: 2, PEER_RESTARTED: 3, TIMED_OUT: 4, IDLE: 5, LOCAL_RESET: 6 });

const error = (code, text) => new (CLASSES.get(code) ?? BarewireError)(code, text);

function notConnected(reason) {
  const text = NOT_CONNECTED[reason] ?? `not connected: reason ${reason}`;
  // From -15 on, in the same order; keys and rules have one code.
  return error(reason < 6 ? -14 - reason : -24, text);
}

/** Calls the native part. */
function call(work) {
  for (;;) {
    try {
      return work();
    } catch (e) {
      const code = Number(e.code);
      if (Number.isNaN(code)) throw e;
      if (code !== BUSY) throw error(code, e.message);
    }
  }
}

function buffer(data) {
  if (Buffer.isBuffer(data)) return data;
  if (typeof data === 'string') return Buffer.from(data);
  if (ArrayBuffer.isView(data)) return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  throw new TypeError('a message is a Buffer, a typed array or a string');
}

class Client {
  #native;
  #board = new BigUint64Array(HELD + 1);
  #ended = null;
  #tokens = 0n;
  #asked = new Map(); // calls and attempts, by number or 't' and token
  #events = []; // claims to messages that nobody has read: they hold up who sent them
  #readers = [];
  #writers = []; // who waits for room

  constructor(name = 'node', { socket, callsMax = 4096 } = {}) {
    this.#native = call(
      () => new native.NativeClient(name, socket, callsMax, this.#board, (count) => this.#burst(count)),
    );
  }

  /** Node stays while somebody waits, and no longer: the loop looks there before it sleeps. */
  #refer() {
    const needed = this.#asked.size > 0 || this.#readers.length > 0 || this.#writers.length > 0;
    this.#board[WANTED] = needed ? 1n : 0n;
    // It may have none to sleep for.
    if (needed && this.#board[HELD] === 0n && this.#ended === null) this.#native.hold();
  }

  #burst(count) {
    const board = this.#board;
    // JavaScript that this runs may have the next burst made, so all of this one is read first.
    const events = [];
    for (let i = 0; i < count; i += 1) {
      const at = i * NUMBERS;
      const kind = Number(BigInt.asIntN(64, board[at]));
      const e = {
        kind,
        reason: Number(board[at + 1]),
        flow: board[at + 2],
        token: board[at + 3],
        offset: Number(board[at + 4]),
        len: Number(board[at + 5]),
        text: '',
      };
      if (kind < 0 || kind === ACCEPTED) e.text = this.#native.text(i);
      events.push(e);
    }
    for (const e of events) this.#take(e);
  }

  #settle(key, work) {
    const asked = this.#asked.get(key);
    this.#asked.delete(key);
    if (asked) work(asked);
    return asked !== undefined;
  }

  #take(e) {
    if (e.kind < 0) {
      this.#end(error(e.kind, e.text));
    } else if (this.#ended !== null) {
      return;
    } else if (KINDS.has(e.kind)) {
      const reader = this.#readers.shift();
      if (reader) reader.deliver(e);
      else this.#events.push(e);
    } else {
      this.#answer(e);
    }
    this.#refer();
  }

  #answer(e) {
    const key = e.kind < 12 ? `t${e.token}` : e.token;
    switch (e.kind) {
      case 1:
        if (!this.#settle(key, (a) => a.resolve(e.flow))) this.#quietly(() => this.#native.reset(e.flow));
        break;
      case 2:
        this.#settle(key, (a) => a.reject(notConnected(e.reason)));
        break;
      case 7:
        this.#settle(key, (a) => a.resolve());
        break;
      case 8:
        this.#settle(key, (a) => a.reject(error(-14, 'the UDP port is taken')));
        break;
      case 10:
        for (const retry of this.#writers.splice(0)) retry();
        break;
      case 13:
      case 14:
        this.#settle(key, (a) => {
          try {
            const body = this.#body(e);
            if (e.kind === 13) a.resolve(body);
            else a.reject(new Failure(e.reason, body.toString()));
          } catch (why) {
            a.reject(why);
          }
        });
        break;
      case 15:
        this.#settle(key, (a) =>
          a.reject(
            e.reason === 1
              ? new TimeoutError(-9, 'no answer before the deadline')
              : new FlowEndedError(-6, 'the flow ended before the answer came'),
          ),
        );
        break;
      default: // of a later release
    }
  }

  #quietly(work) {
    try {
      call(work);
    } catch {
      // The next event says what is the matter.
    }
  }

  #end(why) {
    if (this.#ended !== null) return;
    this.#ended = why;
    for (const asked of this.#asked.values()) asked.reject(why);
    this.#asked.clear();
    for (const reader of this.#readers.splice(0)) reader.reject(why);
    for (const retry of this.#writers.splice(0)) retry();
  }

  #body(e) {
    const head = e.kind === 4 ? 0 : REQUEST_HEAD;
    const body = Buffer.allocUnsafe(Math.max(0, e.len - head));
    call(() => this.#native.take(e.flow, e.offset, e.len, head !== 0, body));
    return body;
  }

  #event(e) {
    const kind = KINDS.get(e.kind);
    const event = { kind, flow: e.flow };
    if (kind === 'accepted') event.remote = e.text;
    if (kind === 'closed') event.reason = e.reason;
    if (kind === 'request' || kind === 'cancelled') event.number = e.token;
    if (kind === 'request') event.leftMs = e.reason === 0 ? Infinity : e.reason / 1000;
    if (kind === 'request' || kind === 'message') event.data = this.#body(e);
    return event;
  }

  #now(work) {
    if (this.#ended !== null) throw this.#ended;
    return call(work);
  }

  /** Tries now, and again whenever there is room. */
  #patiently(work, signal) {
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.#writers = this.#writers.filter((w) => w !== attempt);
        this.#refer();
        reject(signal.reason);
      };
      const attempt = () => {
        signal?.removeEventListener('abort', stop);
        try {
          resolve(this.#now(work));
        } catch (e) {
          if (!(e instanceof FullError)) return reject(e);
          signal?.addEventListener('abort', stop, { once: true });
          this.#writers.push(attempt);
          this.#refer();
        }
      };
      if (signal?.aborted) reject(signal.reason);
      else attempt();
    });
  }

  /** What an event answers. `give` gives it up. */
  #ask(key, signal, give) {
    return new Promise((resolve, reject) => {
      const stop = () => {
        let over = true;
        try {
          over = give();
        } catch (e) {
          this.#settle(key, () => reject(e));
        }
        if (over) this.#settle(key, () => reject(signal.reason));
        this.#refer();
      };
      const done = (settle) => (value) => {
        signal?.removeEventListener('abort', stop);
        settle(value);
      };
      this.#asked.set(key, { resolve: done(resolve), reject: done(reject) });
      this.#refer();
      if (signal?.aborted) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    });
  }

  async listen(udpPort) {
    if (!Number.isInteger(udpPort) || udpPort < 1 || udpPort > 65535) throw new RangeError(`UDP port ${udpPort}`);
    const token = ++this.#tokens;
    const there = this.#ask(`t${token}`, undefined, () => true);
    this.#patiently(() => this.#native.listen(udpPort, token)).catch((e) =>
      this.#settle(`t${token}`, (a) => a.reject(e)),
    );
    return there;
  }

  async connect(remote, { ordered = true, signal } = {}) {
    const token = ++this.#tokens;
    const key = `t${token}`;
    const flow = this.#ask(key, signal, () => {
      call(() => this.#native.cancel(token));
      return true;
    });
    this.#patiently(() => this.#native.connect(remote, !ordered, token), signal).catch((e) =>
      this.#settle(key, (a) => a.reject(e)),
    );
    return flow;
  }

  trySend(flow, data) {
    this.#now(() => this.#native.send(flow, buffer(data)));
  }

  async send(flow, data, { signal } = {}) {
    const bytes = buffer(data);
    signal?.throwIfAborted();
    try {
      this.#now(() => this.#native.send(flow, bytes));
    } catch (e) {
      if (!(e instanceof FullError)) throw e;
      await this.#patiently(() => this.#native.send(flow, bytes), signal);
    }
  }

  async call(flow, data, { timeoutMs, signal } = {}) {
    const bytes = buffer(data);
    const us = timeoutMs === undefined ? 0 : Math.max(1, Math.round(timeoutMs * 1000));
    const number = await this.#patientlyAsk(flow, bytes, us, signal);
    return number.answer;
  }

  /** The answer is asked for in the same turn as the request is sent: no event comes between. */
  #patientlyAsk(flow, bytes, us, signal) {
    return this.#patiently(() => {
      const number = this.#native.request(flow, bytes, us);
      const answer = this.#ask(number, signal, () => call(() => this.#native.requestCancel(number)));
      answer.catch(() => {}); // Whoever awaits it hears of it.
      return { answer };
    }, signal);
  }

  async respond(request, data) {
    const bytes = buffer(data);
    await this.#patiently(() => this.#native.respond(request.flow, request.number, bytes));
  }

  async fail(request, code, why = '') {
    if (!Number.isInteger(code) || code < 0 || code > 65535) throw new RangeError(`code ${code}`);
    await this.#patiently(() => this.#native.fail(request.flow, request.number, code, why));
  }

  async closeFlow(flow) {
    await this.#patiently(() => this.#native.closeFlow(flow));
  }

  async reset(flow) {
    await this.#patiently(() => this.#native.reset(flow));
  }

  peer(flow) {
    if (this.#ended !== null) throw this.#ended;
    return call(() => this.#native.peer(flow)) ?? null;
  }

  async next({ timeoutMs, signal } = {}) {
    if (this.#events.length > 0) return this.#event(this.#events.shift());
    if (this.#ended !== null) throw this.#ended;
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      let timer;
      const leave = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', stop);
        this.#readers = this.#readers.filter((r) => r !== reader);
        this.#refer();
      };
      const stop = () => {
        leave();
        reject(signal.reason);
      };
      const reader = {
        deliver: (e) => {
          leave();
          try {
            resolve(this.#event(e));
          } catch (why) {
            reject(why);
          }
        },
        reject: (why) => {
          leave();
          reject(why);
        },
      };
      this.#readers.push(reader);
      this.#refer();
      signal?.addEventListener('abort', stop, { once: true });
      if (timeoutMs !== undefined) {
        timer = setTimeout(() => {
          leave();
          resolve(null);
        }, timeoutMs);
      }
    });
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      try {
        yield await this.next();
      } catch (e) {
        if (e instanceof ClosedError) return;
        throw e;
      }
    }
  }

  close() {
    this.#native.close();
    this.#events = [];
    this.#end(error(-2, 'the client was closed'));
  }
}

module.exports = {
  BarewireError,
  CLOSED,
  Client,
  ClosedError,
  DaemonGoneError,
  Failure,
  FlowEndedError,
  FullError,
  RefusedError,
  SecurityError,
  TimeoutError,
  TooLargeError,
  version: native.version(),
};
