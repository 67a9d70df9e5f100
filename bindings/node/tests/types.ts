// What a program in TypeScript sees of index.d.ts. It is compiled, and never run: each line is one that programs write, and each
// `@ts-expect-error` one that must not compile.
import * as barewire from '../index.js';

async function ask(client: barewire.Client, where: string): Promise<string> {
  const flow: bigint = await client.connect(where, { ordered: false, signal: AbortSignal.timeout(1000) });
  const answer: Buffer = await client.call(flow, 'price of ES?', { timeoutMs: 5 });
  await client.send(flow, new Uint8Array([1, 2, 3]));
  client.trySend(flow, Buffer.from('hello'));
  const peer = client.peer(flow);
  const name: string | undefined = peer?.name;
  await client.closeFlow(flow);
  return answer.toString() + (name ?? '');
}

async function serve(client: barewire.Client): Promise<void> {
  await client.listen(888);
  for await (const event of client) {
    switch (event.kind) {
      case 'accepted':
        console.log(event.remote);
        break;
      case 'message':
        await client.send(event.flow, event.data);
        break;
      case 'request':
        if (event.leftMs > 1) await client.respond(event, event.data);
        else await client.fail(event, 7, 'too late');
        break;
      case 'closed':
        if (event.reason === barewire.CLOSED.PEER) return;
        break;
      case 'cancelled':
        console.log(event.number);
        break;
      default: {
        const none: never = event;
        throw none;
      }
    }
  }
}

async function patiently(client: barewire.Client): Promise<barewire.Event | null> {
  const surely: barewire.Event = await client.next();
  if (surely.kind !== 'message') return surely;
  // Null: the time was over.
  return client.next({ timeoutMs: 5 });
}

function why(error: unknown): number {
  if (error instanceof barewire.Failure) return error.serverCode;
  if (error instanceof barewire.DaemonGoneError || error instanceof barewire.TimeoutError) return error.code;
  throw error;
}

export async function wrong(client: barewire.Client): Promise<void> {
  // @ts-expect-error A flow is a bigint.
  client.trySend(1, 'hello');
  // @ts-expect-error A message is no number.
  client.trySend(1n, 1);
  // @ts-expect-error With a time-out there may be no event.
  const event: barewire.Event = await client.next({ timeoutMs: 5 });
  // @ts-expect-error Only a request is answered.
  await client.respond({ kind: 'message', flow: 1n, data: Buffer.alloc(0) }, event.kind);
}

export async function main(): Promise<void> {
  const client = new barewire.Client('typed', { callsMax: 16 });
  try {
    await (process.argv.length > 2 ? ask(client, '10.0.0.2:888') : serve(client));
    await patiently(client);
  } catch (error) {
    console.error(why(error), barewire.version);
  } finally {
    client.close();
  }
}
