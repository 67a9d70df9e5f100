'use strict';
// The Node side of bindings/conformance: `serve PORT`, or `run ADDRESS KIND KEY=VALUE...`.
const assert = require('node:assert/strict');
const { once } = require('node:events');
const { setTimeout: sleep, setImmediate: turn } = require('node:timers/promises');
const barewire = require('..');
const { CLOSED, Client } = barewire;

async function serve(port) {
  const client = new Client('server');
  await client.listen(port);
  console.log('ready');
  let cancelled = 0;
  // A flow that ended meanwhile is the client's affair.
  const quietly = (promise) => promise.catch((e) => assert(!(e instanceof barewire.DaemonGoneError), e));
  for await (const event of client) {
    if (event.kind === 'cancelled') cancelled += 1;
    if (event.kind === 'message') await quietly(client.send(event.flow, event.data));
    if (event.kind !== 'request') continue;
    const text = event.data.length < 16 ? event.data.toString() : '';
    if (text === 'hold') continue;
    if (text === 'fail') await quietly(client.fail(event, 7, 'as asked'));
    else if (text === 'cancelled?') await quietly(client.respond(event, String(cancelled)));
    else await quietly(client.respond(event, event.data));
  }
}

function pattern(size, seed) {
  const out = Buffer.allocUnsafe(size);
  for (let i = 0; i < size; i += 1) out[i] = (i * 31 + seed * 7 + (i >> 8)) & 0xff;
  return out;
}

class Run {
  constructor(address, given) {
    this.address = address;
    this.given = new Map(given.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
    this.client = new Client('client');
  }

  number(key, otherwise = 1) {
    return this.given.has(key) ? Number(this.given.get(key)) : otherwise;
  }

  connect() {
    return this.client.connect(this.address, { ordered: this.number('ordered') !== 0 });
  }

  async must(kind) {
    for (;;) {
      const event = await this.client.next({ timeoutMs: 30000 });
      assert(event, `an event of kind ${kind} comes`);
      if (event.kind === kind) return event;
      assert(event.kind !== 'closed', 'no flow ends meanwhile');
    }
  }

  async echo() {
    const ordered = this.number('ordered') !== 0;
    const flows = [];
    for (let i = 0; i < this.number('flows'); i += 1) flows.push(await this.connect());
    for (const size of this.given.get('sizes').split(',').map(Number)) {
      const expected = new Map(flows.map((flow) => [flow, []]));
      for (let n = 0; n < this.number('count'); n += 1) {
        for (const flow of flows) {
          const data = pattern(size, n + Number(flow % 256n));
          await this.client.send(flow, data);
          expected.get(flow).push(data);
        }
      }
      for (let n = this.number('count') * flows.length; n > 0; n -= 1) {
        const event = await this.must('message');
        const waiting = expected.get(event.flow);
        const at = waiting.slice(0, ordered ? 1 : undefined).findIndex((data) => data.equals(event.data));
        assert(at >= 0, `what comes back is what was sent, of ${size} bytes`);
        waiting.splice(at, 1);
      }
    }
  }

  async too_large() {
    const flow = await this.connect();
    assert.throws(() => this.client.trySend(flow, Buffer.alloc(this.number('size'))), barewire.TooLargeError);
  }

  async refused() {
    await assert.rejects(this.client.connect(`${this.address.split(':')[0]}:1`), barewire.RefusedError);
  }

  async wrong_key() {
    await assert.rejects(this.client.connect(this.address), barewire.SecurityError);
  }

  async peer() {
    const flow = await this.connect();
    const peer = this.client.peer(flow);
    if (this.given.has('name')) {
      assert.equal(peer.name, this.given.get('name'));
      assert.equal(peer.key.toString('hex'), this.given.get('key'));
    } else {
      assert.equal(peer, null);
    }
    assert.equal(this.client.peer(flow + 1n), null);
  }

  async requests() {
    const flow = await this.connect();
    const all = Array.from({ length: this.number('count') }, async (_, n) => {
      const data = pattern(this.number('size'), n);
      assert((await this.client.call(flow, data, { timeoutMs: 60000 })).equals(data), 'each answer is to its request');
    });
    await Promise.all(all);
  }

  async deadline() {
    const flow = await this.connect();
    await assert.rejects(
      this.client.call(flow, 'hold', { timeoutMs: this.number('timeout_ms') }),
      barewire.TimeoutError,
    );
  }

  async deadlines() {
    const flow = await this.connect();
    const calls = Array.from({ length: this.number('count') }, () =>
      assert.rejects(this.client.call(flow, 'hold', { timeoutMs: this.number('timeout_ms') }), barewire.TimeoutError),
    );
    await Promise.all(calls);
  }

  async both_ways() {
    const flow = await this.connect();
    const data = pattern(this.number('size'), 0);
    const reads = async () => {
      for (let n = 0; n < this.number('count'); n += 1) assert((await this.must('message')).data.equals(data));
    };
    const read = reads();
    for (let n = 0; n < this.number('count'); n += 1) {
      await this.client.send(flow, data);
      if (n % 64 === 0) await turn();
    }
    await read;
  }

  async peer_killed_sending() {
    const flow = await this.connect();
    const data = pattern(this.number('size'), 0);
    await this.client.send(flow, 'x');
    await this.must('message');
    console.log('connected');
    await once(process.stdin, 'data');
    process.stdin.destroy();
    // The peer stands still.
    assert.throws(() => {
      for (;;) this.client.trySend(flow, data);
    }, barewire.FullError);
    console.log('full');
    const sends = async () => {
      for (;;) await this.client.send(flow, data);
    };
    // No such flow, or it is closing.
    await assert.rejects(sends(), (e) => e.code === -6 || e.code === -7);
  }

  async close_unread() {
    const flow = await this.connect();
    const data = pattern(this.number('size'), 0);
    for (let n = 0; n <= this.number('count'); n += 1) await this.client.send(flow, data);
    await this.must('message');
    await sleep(100);
    const reads = async () => {
      for (;;) {
        const event = await this.client.next();
        assert(event.kind !== 'message' || event.data.equals(data));
      }
    };
    const read = assert.rejects(reads(), barewire.ClosedError);
    await turn();
    this.client.close();
    await read;
    await assert.rejects(this.client.next(), barewire.ClosedError);
  }

  async connect_cancelled() {
    for (let n = 0; n < this.number('count'); n += 1) {
      const control = new AbortController();
      const attempt = this.client.connect(this.address, { signal: control.signal });
      const done = attempt.then(
        (flow) => this.client.reset(flow),
        (e) => assert.equal(e.name, 'AbortError'),
      );
      for (let i = 0; i < n % 30; i += 1) await turn();
      control.abort();
      await done;
    }
    console.log('cancelled');
    await once(process.stdin, 'data');
    process.stdin.destroy();
  }

  async failure() {
    const flow = await this.connect();
    await assert.rejects(this.client.call(flow, 'fail', { timeoutMs: 60000 }), (e) => {
      assert(e instanceof barewire.Failure);
      assert.deepEqual([e.serverCode, e.message], [7, 'as asked']);
      return true;
    });
  }

  async cancellation() {
    const flow = await this.connect();
    const cancelled = async () => Number(await this.client.call(flow, 'cancelled?'));
    const before = await cancelled();
    const control = new AbortController();
    const held = this.client.call(flow, 'hold', { signal: control.signal });
    control.abort();
    await assert.rejects(held, { name: 'AbortError' });
    assert.equal(await cancelled(), before + 1, 'the server hears of it');
  }

  async pressure() {
    const flow = await this.connect();
    const size = this.number('size');
    let sent = 0;
    assert.throws(() => {
      for (; ; sent += 1) this.client.trySend(flow, pattern(size, sent));
    }, barewire.FullError);
    assert(sent > 0, 'some were taken');
    for (let got = 0; got < sent; got += 1) {
      assert((await this.must('message')).data.equals(pattern(size, got)), 'echoes come in order');
    }
    // And there is room again.
    await this.client.send(flow, 'x');
    assert.equal((await this.must('message')).data.toString(), 'x');
  }

  async close_wait() {
    const flow = await this.connect();
    for (let n = 0; n < this.number('count'); n += 1) await this.client.send(flow, pattern(this.number('size'), n));
    await this.client.closeFlow(flow);
    assert.equal((await this.must('closed')).reason, CLOSED.LOCAL);
  }

  async use_after_close() {
    const flow = await this.connect();
    this.client.close();
    assert.throws(() => this.client.trySend(flow, 'x'), barewire.ClosedError);
    await assert.rejects(this.client.send(flow, 'x'), barewire.ClosedError);
    await assert.rejects(this.client.next(), barewire.ClosedError);
    await assert.rejects(this.client.connect(this.address), barewire.ClosedError);
    this.client.close();
  }

  async close_waiting() {
    const held = this.client.call(await this.connect(), 'hold');
    const next = this.client.next();
    const both = [assert.rejects(held, barewire.ClosedError), assert.rejects(next, barewire.ClosedError)];
    this.client.close();
    await Promise.all(both);
  }

  // Its memory is looked at from outside, at each of the two lines.
  async flat() {
    const flow = await this.connect();
    const data = pattern(this.number('size'), 0);
    const count = this.number('count', 4);
    let sent = 0;
    for (let got = 1; got <= count; got += 1) {
      for (; sent < count && sent < got + 31; sent += 1) await this.client.send(flow, data);
      assert.equal((await this.must('message')).data.length, data.length);
      if (got === Math.floor(count / 4) || got === count) {
        console.log(`at ${got}`);
        await once(process.stdin, 'data');
      }
    }
    process.stdin.destroy();
  }

  async close_calling() {
    const flow = await this.connect();
    const held = Array.from({ length: this.number('count') }, () =>
      assert.rejects(this.client.call(flow, 'hold', { timeoutMs: 60000 }), barewire.ClosedError),
    );
    this.client.close();
    await Promise.all(held);
    await assert.rejects(this.client.call(flow, 'hold'), barewire.ClosedError);
  }

  async peer_killed() {
    await this.client.send(await this.connect(), 'x');
    await this.must('message');
    console.log('connected');
    assert.equal((await this.must('closed')).reason, CLOSED.RESET);
  }

  async daemon_restarted() {
    const gone = this.client.next();
    console.log('connected');
    await assert.rejects(gone, barewire.DaemonGoneError);
    this.client.close();
    console.log('gone');
    await once(process.stdin, 'data');
    process.stdin.destroy();
    const again = new Client('again');
    await again.listen(999);
    again.close();
  }
}

async function main([what, address, kind, ...given]) {
  if (what === 'serve') return serve(Number(address));
  const run = new Run(address, given);
  if (!(kind in run)) return console.log('SKIPPED');
  await run[kind]();
  // Without `close`: nothing that is left keeps Node.
  return console.log('ok');
}

main(process.argv.slice(2)).catch((e) => {
  console.error(e);
  process.exit(1);
});
