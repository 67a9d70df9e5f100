'use strict';
// Requests and responses, timed: through the barewire daemon, or over a TCP socket (of the event loop: Node has no others).
//
//     node bench.js serve barewire 888 SIZE
//     node bench.js run barewire 10.0.0.2:888 SIZE WINDOW WARMUP_MS MEASURE_MS FILE
//
// `tcp` instead of `barewire` has a port of 0 for any, as has `grpc` (calls of bytes by @grpc/grpc-js), where Node finds it: `has SYSTEM`
// says whether it does. A server says `ready PORT`, and ends after its client, or never: then it is to be ended. A client leaves each
// round trip in FILE, as ns in 32 bits, and says `measured` and the ns that they took.
const fs = require('node:fs');
const net = require('node:net');
const { Client } = require('..');

// Calls `onMessage` with each whole message: a length of four bytes, and so many bytes.
function framed(socket, size, onMessage) {
  socket.setNoDelay(true);
  let rest = null;
  socket.on('data', (chunk) => {
    let data = rest === null ? chunk : Buffer.concat([rest, chunk]);
    // A client that has measured destroys it: what else came with the last answer is not for it.
    while (data.length >= size + 4 && !socket.destroyed) {
      if (data.readUInt32LE(0) !== size) throw new Error('a message of another length');
      onMessage(data.subarray(4, size + 4));
      data = data.subarray(size + 4);
    }
    rest = data.length === 0 ? null : data;
  });
  const out = Buffer.alloc(size + 4);
  out.writeUInt32LE(size, 0);
  return (data) => {
    // A write may hold on to what it was given.
    const frame = Buffer.from(out);
    data.copy(frame, 4);
    socket.write(frame);
  };
}

function serveTcp(port, size) {
  const server = net.createServer((socket) => {
    server.close();
    const send = framed(socket, size, (data) => send(data));
    socket.on('error', () => socket.destroy());
  });
  server.listen(port, '0.0.0.0', () => console.log(`ready ${server.address().port}`));
}

const same = (data) => data;
const ECHO = { path: '/barewire.Bench/Echo', requestStream: false, responseStream: false };

function serveGrpc(port) {
  const grpc = require('@grpc/grpc-js');
  const server = new grpc.Server();
  const coding = {
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
  server.addService({ echo: { ...ECHO, ...coding } }, { echo: (call, answer) => answer(null, call.request) });
  server.bindAsync(`0.0.0.0:${port}`, grpc.ServerCredentials.createInsecure(), (e, bound) => {
    if (e) fail(e);
    console.log(`ready ${bound}`);
  });
}

async function serve(port) {
  const client = new Client('bench server');
  await client.listen(port);
  console.log(`ready ${port}`);
  for await (const event of client) {
    if (event.kind === 'message') await client.send(event.flow, event.data);
    if (event.kind === 'closed') break;
  }
  client.close();
}

function fail(e) {
  console.error(`bench: ${e.message}`);
  process.exit(1);
}

const now = () => Number(process.hrtime.bigint());

// What happens when an answer comes; `send` is to send.
class Measurement {
  constructor(size, window, warmupNs, measureNs, file) {
    this.data = Buffer.from(Array.from({ length: size }, (_, i) => (i * 31) & 0xff));
    this.window = window;
    this.spans = [warmupNs, measureNs];
    this.file = file;
    this.sent = new Float64Array(window);
    this.next = 0;
    this.times = new Uint32Array(1 << 22);
    this.count = 0;
    this.begin = 0;
    this.done = false;
  }

  // The first answer is compared, and begins the measurement: how many to send now.
  answered(data) {
    if (this.begin === 0) {
      if (!data.equals(this.data)) throw new Error('another answer than what was sent');
      this.begin = now() + this.spans[0];
      this.end = this.begin + this.spans[1];
      this.sent.fill(now());
      return this.window;
    }
    if (data.length !== this.data.length) throw new Error('an answer of another length');
    const at = now();
    if (at >= this.begin) {
      if (this.count === this.times.length) {
        const more = new Uint32Array(this.count * 2);
        more.set(this.times);
        this.times = more;
      }
      this.times[this.count] = Math.min(at - this.sent[this.next], 2 ** 32 - 1);
      this.count += 1;
    }
    if (at >= this.end) {
      fs.writeFileSync(this.file, new Uint8Array(this.times.buffer, 0, this.count * 4));
      console.log(`measured ${at - this.begin}`);
      return 0;
    }
    this.sent[this.next] = now();
    this.next = (this.next + 1) % this.window;
    return 1;
  }
}

function runTcp(where, measurement) {
  const [host, port] = where.split(':');
  const socket = net.connect(Number(port), host);
  const send = framed(socket, measurement.data.length, (data) => {
    const count = measurement.answered(data);
    if (count === 0) socket.destroy();
    for (let i = 0; i < count; i += 1) send(measurement.data);
  });
  socket.on('connect', () => send(measurement.data));
  socket.on('error', fail);
}

function runGrpc(where, measurement) {
  const grpc = require('@grpc/grpc-js');
  const client = new grpc.Client(where, grpc.credentials.createInsecure());
  const send = () =>
    client.makeUnaryRequest(ECHO.path, same, same, measurement.data, (e, data) => {
      if (e) return measurement.done ? undefined : fail(e);
      if (measurement.done) return undefined;
      const count = measurement.answered(data);
      if (count === 0) {
        measurement.done = true;
        client.close();
      }
      for (let i = 0; i < count; i += 1) send();
      return undefined;
    });
  send();
}

async function runMessages(where, measurement) {
  const client = new Client('bench client');
  const flow = await client.connect(where);
  let count = 1;
  while (count > 0) {
    for (let i = 0; i < count; i += 1) await client.send(flow, measurement.data);
    let event;
    do {
      event = await client.next();
      if (event.kind === 'closed') throw new Error('the flow ended');
    } while (event.kind !== 'message');
    count = measurement.answered(event.data);
  }
  client.close();
}

async function main([verb, system, where, ...rest]) {
  const n = rest.slice(0, 4).map(Number);
  if (verb === 'has' && where === undefined) {
    if (system === 'grpc') require('@grpc/grpc-js');
    else if (system !== 'tcp' && system !== 'barewire') throw new Error(`there is no ${system} here`);
  } else if (verb === 'serve' && rest.length === 1) {
    if (system === 'tcp') serveTcp(Number(where), n[0]);
    else if (system === 'grpc') serveGrpc(Number(where));
    else await serve(Number(where));
  } else if (verb === 'run' && rest.length === 5) {
    const measurement = new Measurement(n[0], n[1], n[2] * 1e6, n[3] * 1e6, rest[4]);
    if (system === 'tcp') runTcp(where, measurement);
    else if (system === 'grpc') runGrpc(where, measurement);
    else await runMessages(where, measurement);
  } else {
    console.error(
      'usage: has SYSTEM | serve SYSTEM PORT SIZE | run SYSTEM ADDRESS:PORT SIZE WINDOW WARMUP_MS MEASURE_MS FILE',
    );
    process.exitCode = 2;
  }
}

main(process.argv.slice(2)).catch(fail);
