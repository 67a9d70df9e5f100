/** Low-latency messages and requests through the barewire daemon. */

/** What a message is made of. */
export type Data = Buffer | NodeJS.ArrayBufferView | string;

/** A flow's number. */
export type Flow = bigint;

/** A call failed. */
export class BarewireError extends Error {
  /** A BW_ERR_ number of barewire.h; 0: the server's word. */
  readonly code: number;
}
/** The client was closed. */
export class ClosedError extends BarewireError {}
/** Memory or ring is full for now. */
export class FullError extends BarewireError {}
/** The message is above 64 MiB, or larger than the channel's memory. */
export class TooLargeError extends BarewireError {}
/** The daemon is gone: make another client when it is back. */
export class DaemonGoneError extends BarewireError {}
/** Nobody listens there. */
export class RefusedError extends BarewireError {}
/** The keys or the rules of the two hosts do not let the flow open. */
export class SecurityError extends BarewireError {}
/** No answer before the deadline. */
export class TimeoutError extends BarewireError {}
/** The flow ended before the answer came. Whether the server acted is not known. */
export class FlowEndedError extends BarewireError {}
/** The server's answer that it has no response. */
export class Failure extends BarewireError {
  /** 0 to 65535, with a meaning of the server's own. */
  readonly serverCode: number;
}

/** Why a flow ended; later releases may have more numbers. */
export const CLOSED: {
  readonly LOCAL: 0;
  readonly PEER: 1;
  readonly RESET: 2;
  readonly PEER_RESTARTED: 3;
  readonly TIMED_OUT: 4;
  readonly IDLE: 5;
  readonly LOCAL_RESET: 6;
};

/** A peer connected to a port that this client listens on. */
export interface Accepted {
  kind: 'accepted';
  flow: Flow;
  remote: string;
}
/** A message. */
export interface Message {
  kind: 'message';
  flow: Flow;
  data: Buffer;
}
/** A flow has ended: `reason` is one of CLOSED. */
export interface Closed {
  kind: 'closed';
  flow: Flow;
  reason: number;
}
/** A request: answer it with `respond` or `fail`. `leftMs`: until the caller's deadline when it asked. */
export interface Request {
  kind: 'request';
  flow: Flow;
  number: bigint;
  data: Buffer;
  leftMs: number;
}
/** The caller no longer waits for this request. */
export interface Cancelled {
  kind: 'cancelled';
  flow: Flow;
  number: bigint;
}
export type Event = Accepted | Message | Closed | Request | Cancelled;

export interface Abortable {
  signal?: AbortSignal;
}

/** Who is at the other end of an encrypted flow, as the peer has proven it. */
export interface Identity {
  /** What the configuration calls it; 'self': this host. */
  name: string;
  /** Its public key, 32 bytes. */
  key: Buffer;
}

/** A channel to the daemon. What nobody has read yet stays in shared memory and holds its sender up. */
export class Client implements AsyncIterable<Event> {
  /** `socket`: the daemon's control socket; else BAREWIRE_SOCKET, or where one answers. */
  constructor(name?: string, options?: { socket?: string; callsMax?: number });
  /** Asks for connections on a UDP port. */
  listen(udpPort: number): Promise<void>;
  /** Opens a flow to an address such as 10.0.0.2:888. */
  connect(remote: string, options?: Abortable & { ordered?: boolean }): Promise<Flow>;
  /** Queues a message; throws FullError while there is no room. */
  trySend(flow: Flow, data: Data): void;
  /** Queues a message, and waits for room while there is none. */
  send(flow: Flow, data: Data, options?: Abortable): Promise<void>;
  /** Sends a request and waits for its answer. The deadline goes to the server; an abort tells it. */
  call(flow: Flow, data: Data, options?: Abortable & { timeoutMs?: number }): Promise<Buffer>;
  /** Answers a request. */
  respond(request: Request, data: Data): Promise<void>;
  /** Says that a request has no response. */
  fail(request: Request, code: number, why?: string): Promise<void>;
  /** The next event; null when the time was over. */
  next(options: Abortable & { timeoutMs: number }): Promise<Event | null>;
  next(options?: Abortable): Promise<Event>;
  /** Events, until the client is closed. */
  [Symbol.asyncIterator](): AsyncIterator<Event>;
  /** Who is at the other end of a flow; null: it is not encrypted, or gone. */
  peer(flow: Flow): Identity | null;
  /** Ends a flow after everything sent on it was acknowledged; a `closed` event follows. */
  closeFlow(flow: Flow): Promise<void>;
  /** Ends a flow at once. */
  reset(flow: Flow): Promise<void>;
  /** Ends the client: flows are reset, waits end, and everything on it fails with ClosedError. */
  close(): void;
}

/** The library's version. */
export const version: string;
