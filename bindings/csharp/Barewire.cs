// Low-latency messages and requests through the barewire daemon. One file over libbarewire (barewire.h), for Mono and .NET.
//
//     using (var client = new Client("hello")) {
//         ulong flow = await client.ConnectAsync("10.0.0.2:888");
//         byte[] answer = await client.CallAsync(flow, request, TimeSpan.FromMilliseconds(5));
//     }

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Barewire
{
    /// <summary>A call failed.</summary>
    public class BarewireException : Exception
    {
        internal BarewireException(int code, string text) : base(text) { Code = code; }

        /// <summary>A BW_ERR_ number of barewire.h; 0: the server's word.</summary>
        public int Code { get; }

        internal static BarewireException Of(int code, string text)
        {
            switch (code)
            {
                case Native.Handle: return new ClosedException(text);
                case Native.Again: return new FullException(text);
                case Native.TooLarge: return new TooLargeException(text);
                case Native.DaemonGone: return new DaemonGoneException(text);
                case Native.Security: return new KeysException(text);
                case Native.Refused: return new RefusedException(text);
                default: return new BarewireException(code, text);
            }
        }

        internal static BarewireException Last(int code) { return Of(code, Native.Text(Native.bw_last_error())); }

        internal static BarewireException NotConnected(uint reason)
        {
            string[] texts =
            {
                "", "nobody listens there", "no room for another flow", "the peer does not answer",
                "the next hop does not answer, or there is no route", "given up", "the peer takes encrypted flows only",
                "the peer does not trust this host's key", "the peer has another key than the trusted one",
                "the peer does not encrypt", "this host does not trust the peer's key", "this user may not connect there",
            };
            string text = reason < texts.Length ? texts[reason] : "not connected: reason " + reason;
            // From -15 on, in the same order; keys and rules have one code.
            return Of(reason < 6 ? -14 - (int)reason : Native.Security, text);
        }
    }

    /// <summary>The client was closed.</summary>
    public sealed class ClosedException : BarewireException
    {
        internal ClosedException(string text) : base(Native.Handle, text) { }
    }

    /// <summary>Memory or ring is full for now.</summary>
    public sealed class FullException : BarewireException
    {
        internal FullException(string text) : base(Native.Again, text) { }
    }

    /// <summary>The message is above 64 MiB, or larger than the channel's memory.</summary>
    public sealed class TooLargeException : BarewireException
    {
        internal TooLargeException(string text) : base(Native.TooLarge, text) { }
    }

    /// <summary>The daemon is gone: make another client when it is back.</summary>
    public sealed class DaemonGoneException : BarewireException
    {
        internal DaemonGoneException(string text) : base(Native.DaemonGone, text) { }
    }

    /// <summary>Nobody listens there.</summary>
    public sealed class RefusedException : BarewireException
    {
        internal RefusedException(string text) : base(Native.Refused, text) { }
    }

    /// <summary>The keys or the rules of the two hosts do not let the flow open.</summary>
    public sealed class KeysException : BarewireException
    {
        internal KeysException(string text) : base(Native.Security, text) { }
    }

    /// <summary>The flow ended before the answer came. Whether the server acted is not known.</summary>
    public sealed class FlowEndedException : BarewireException
    {
        internal FlowEndedException() : base(-6, "the flow ended before the answer came") { }
    }

    /// <summary>The server's answer that it has no response.</summary>
    public sealed class ServerFailureException : BarewireException
    {
        internal ServerFailureException(int serverCode, string text) : base(0, text) { ServerCode = serverCode; }

        /// <summary>The server's own number, 0 to 65535.</summary>
        public int ServerCode { get; }
    }

    /// <summary>What an event is.</summary>
    public enum EventKind
    {
        /// <summary>A peer connected to a port that this client listens on.</summary>
        Accepted = 3,
        /// <summary>A message.</summary>
        Message = 4,
        /// <summary>A flow has ended.</summary>
        Closed = 9,
        /// <summary>A request: answer it with Respond or Fail.</summary>
        Request = 12,
        /// <summary>The caller no longer waits for this request.</summary>
        Cancelled = 16,
    }

    /// <summary>Why a flow ended; later releases may have more numbers.</summary>
    public enum CloseReason
    {
        /// <summary>This side closed it, and everything sent was acknowledged.</summary>
        Local = 0,
        /// <summary>The peer closed it, after all it had sent.</summary>
        Peer = 1,
        /// <summary>The peer's application reset it or died.</summary>
        Reset = 2,
        /// <summary>The peer's host or daemon restarted.</summary>
        PeerRestarted = 3,
        /// <summary>The peer does not answer.</summary>
        TimedOut = 4,
        /// <summary>Nothing was sent either way for too long.</summary>
        Idle = 5,
        /// <summary>This side reset it.</summary>
        LocalReset = 6,
    }

    /// <summary>Who is at the other end of an encrypted flow, as the peer has proven it.</summary>
    public sealed class Identity
    {
        internal Identity(string name, byte[] key) { Name = name; Key = key; }

        /// <summary>What the configuration calls it; "self": this host.</summary>
        public string Name { get; }
        /// <summary>Its public key, 32 bytes.</summary>
        public byte[] Key { get; }
    }

    /// <summary>Something that happened.</summary>
    public sealed partial class Event
    {
        internal Event(EventKind kind, ulong flow, uint reason, ulong number)
        {
            Kind = kind;
            Flow = flow;
            Number = number;
            if (kind == EventKind.Closed) Reason = (CloseReason)reason;
            // Ticks are 100 ns.
            if (kind == EventKind.Request) Left = reason == 0 ? Timeout.InfiniteTimeSpan : TimeSpan.FromTicks(reason * 10L);
        }

        byte[] data;
        /// <summary>Makes an array of a body that is in somebody's memory (Spans.cs).</summary>
        partial void Own();

        /// <summary>What.</summary>
        public EventKind Kind { get; }
        /// <summary>The flow's number.</summary>
        public ulong Flow { get; }
        /// <summary>Of Closed.</summary>
        public CloseReason Reason { get; }
        /// <summary>Of Request and Cancelled: the request's number.</summary>
        public ulong Number { get; }
        /// <summary>Of Message and Request: the body.</summary>
        public byte[] Data { get { Own(); return data; } internal set { data = value; } }
        /// <summary>Of Request: until the caller's deadline when it asked.</summary>
        public TimeSpan Left { get; }
    }

    /// <summary>A channel to the daemon, for any number of threads.</summary>
    /// <remarks>
    /// A thread in Next takes events itself, so that no other stands between it and its message. Tasks are completed by one thread of the
    /// client's own, whose continuations run elsewhere; it takes events while one is not complete, and while nobody else does.
    /// What nobody has read yet stays in shared memory and holds its sender up.
    /// </remarks>
    public sealed partial class Client : IDisposable
    {
        const uint CallsMax = 4096;
        /// <summary>Nobody has taken events for so long: the client's own thread does.</summary>
        const int KeepAfterMs = 10;
        static readonly byte[] Nothing = new byte[0];

        readonly IntPtr raw;
        readonly Thread taker;
        readonly ConcurrentDictionary<ulong, TaskCompletionSource<byte[]>> asked =
            new ConcurrentDictionary<ulong, TaskCompletionSource<byte[]>>();
        readonly ConcurrentDictionary<ulong, TaskCompletionSource<ulong>> opening =
            new ConcurrentDictionary<ulong, TaskCompletionSource<ulong>>();
        readonly object gate = new object();
        readonly Queue<Native.Event> queue = new Queue<Native.Event>();
        /// <summary>What others have taken and the client's own thread is to complete.</summary>
        readonly Queue<Native.Event> handed = new Queue<Native.Event>();
        /// <summary>What that thread sleeps on.</summary>
        readonly AutoResetEvent keep = new AutoResetEvent(false);
        /// <summary>Who takes events.</summary>
        Thread leader;
        long leads;
        int waiting, writers;
        bool asleep;
        long tokens;
        long room;
        int freed;
        volatile bool stopping;
        volatile BarewireException ended;

        /// <summary>Attaches to a daemon.</summary>
        /// <param name="name">What to call the application in statistics.</param>
        /// <param name="socket">The daemon's control socket; null: BAREWIRE_SOCKET, or where one answers.</param>
        public Client(string name, string socket = null)
        {
            int code = Native.bw_client_attach(Native.Text(name), Native.Text(socket), out raw);
            if (code < 0) throw BarewireException.Last(code);
            code = Native.bw_requests(raw, CallsMax);
            if (code < 0)
            {
                var why = BarewireException.Last(code);
                Native.bw_client_free(raw);
                throw why;
            }
            taker = new Thread(TakeEvents) { IsBackground = true, Name = "barewire" };
            taker.Start();
        }

        /// <summary>The library's version.</summary>
        public static string Version { get { return Native.Text(Native.bw_version()); } }

        void TakeEvents()
        {
            for (;;)
            {
                Native.Event e;
                if (Due(out e))
                {
                    Dispatch(ref e);
                    continue;
                }
                if (ended != null || stopping) break;
                int got = Native.bw_wait_event(raw, -1, out e);
                if (Leave(got, ref e)) Dispatch(ref e);
            }
            End(stopping ? new ClosedException("the client was closed") : ended);
        }

        /// <summary>Until there is something to do for the client's own thread: an event that is due, or (false) to take events.</summary>
        bool Due(out Native.Event e)
        {
            long seen = -1;
            for (;;)
            {
                int nap = KeepAfterMs;
                lock (gate)
                {
                    asleep = false;
                    e = default(Native.Event);
                    if (handed.Count > 0)
                    {
                        e = handed.Dequeue();
                        return true;
                    }
                    if (ended != null || stopping) return false;
                    bool active = leads != seen;
                    seen = leads;
                    if (leader == null && (IsNeeded || (!active && waiting == 0)))
                    {
                        leader = taker;
                        return false;
                    }
                    if (leader != null && !active)
                    {
                        // It waits for long. Who leaves says so then.
                        asleep = true;
                        nap = Timeout.Infinite;
                        seen = -1;
                    }
                }
                keep.WaitOne(nap);
            }
        }

        /// <summary>Somebody waits for what only the client's own thread brings.</summary>
        bool IsNeeded { get { return writers > 0 || !asked.IsEmpty || !opening.IsEmpty; } }

        /// <summary>The leader is none any more, and what it took is said. True: its event is for a task.</summary>
        bool Leave(int got, ref Native.Event e)
        {
            lock (gate)
            {
                leader = null;
                bool isForTask = false;
                if (got == 1)
                {
                    switch (e.Kind)
                    {
                        case 3: // accepted
                        case 4: // message
                        case 9: // closed
                        case 12: // request
                        case 16: // cancelled
                            queue.Enqueue(e);
                            break;
                        case 10: // writable
                            room++;
                            break;
                        case 11: // woken
                            break;
                        default:
                            isForTask = true;
                            break;
                    }
                }
                else if (got < 0 && got != Native.Busy && got != Native.Interrupted) ended = BarewireException.Last(got);
                if (waiting > 0) Monitor.PulseAll(gate);
                return isForTask;
            }
        }

        /// <summary>A task was made: the client's own thread takes events for it.</summary>
        void Summon()
        {
            lock (gate)
            {
                if (leader == null) keep.Set();
            }
        }

        /// <summary>With the lock: waits for a change.</summary>
        void Await(int ms)
        {
            waiting++;
            try
            {
                Monitor.Wait(gate, ms);
            }
            finally
            {
                waiting--;
            }
        }

        void End(BarewireException why)
        {
            lock (gate)
            {
                ended = why;
                Monitor.PulseAll(gate);
            }
            TaskCompletionSource<byte[]> call;
            foreach (var id in asked.Keys) if (asked.TryRemove(id, out call)) call.TrySetException(why);
            TaskCompletionSource<ulong> attempt;
            foreach (var token in opening.Keys) if (opening.TryRemove(token, out attempt)) attempt.TrySetException(why);
        }

        void Dispatch(ref Native.Event e)
        {
            TaskCompletionSource<ulong> to;
            switch (e.Kind)
            {
                case 1: // connected
                    if (!opening.TryRemove(e.Token, out to) || !to.TrySetResult(e.Flow))
                    {
                        ulong flow = e.Flow;
                        Unbusy(() => Native.bw_reset(raw, flow));
                    }
                    return;
                case 2: // not connected
                    if (opening.TryRemove(e.Token, out to)) to.TrySetException(BarewireException.NotConnected(e.Reason));
                    return;
                case 7: // listening
                    if (opening.TryRemove(e.Token, out to)) to.TrySetResult(0);
                    return;
                case 8: // not listening
                    if (opening.TryRemove(e.Token, out to))
                        to.TrySetException(BarewireException.Of(Native.PortTaken, "the UDP port is taken"));
                    return;
                case 13: // response
                case 14: // failure
                    try
                    {
                        byte[] body = Take(ref e);
                        if (e.Kind == 13) Answered(e.Token).TrySetResult(body);
                        else Answered(e.Token).TrySetException(new ServerFailureException((int)e.Reason, Encoding.UTF8.GetString(body)));
                    }
                    catch (Exception why)
                    {
                        Answered(e.Token).TrySetException(why);
                    }
                    return;
                case 15: // unanswered
                    Answered(e.Token).TrySetException(
                        e.Reason == 1 ? (Exception)new TimeoutException("no answer before the deadline") : new FlowEndedException());
                    return;
            }
        }

        /// <summary>Whoever comes first makes it: the thread that asked, or the one that takes the answer.</summary>
        TaskCompletionSource<byte[]> Answered(ulong id)
        {
            return asked.GetOrAdd(id, n => new TaskCompletionSource<byte[]>(TaskCreationOptions.RunContinuationsAsynchronously));
        }

        static int HeadOf(ref Native.Event e) { return e.Kind == 4 ? 0 : Native.Head; }
        static bool HasBody(ref Native.Event e) { return e.Kind == 4 || e.Kind == 12; }
        static long BodyOf(ref Native.Event e) { return Math.Max(0, (long)e.Message.Len - HeadOf(ref e)); }

        unsafe byte[] Take(ref Native.Event e)
        {
            var bytes = new byte[BodyOf(ref e)];
            fixed (byte* to = bytes) Take(ref e, to, bytes.Length);
            return bytes;
        }

        /// <summary>Copies the body, and gives its memory back.</summary>
        unsafe void Take(ref Native.Event e, byte* to, int len)
        {
            Native.Message message = e.Message;
            var head = (UIntPtr)HeadOf(ref e);
            int read;
            while ((read = Native.bw_message_read_at(raw, ref message, head, to, (UIntPtr)len)) == Native.Busy) Thread.Yield();
            BarewireException why = read < 0 ? BarewireException.Last(read) : null;
            while (Native.bw_message_release(raw, ref message) == Native.Busy) Thread.Yield();
            Native.bw_flush(raw);
            if (why != null) throw why;
        }

        /// <summary>Another thread may be inside for a moment.</summary>
        static int Unbusy(Func<int> attempt)
        {
            int n;
            while ((n = attempt()) == Native.Busy) Thread.Yield();
            return n;
        }

        int Checked(int n)
        {
            if (n >= 0) return n;
            // On this thread, before anything else fails.
            var why = BarewireException.Last(n);
            throw ended ?? why;
        }

        /// <summary>Repeats a call while memory or ring is full.</summary>
        int Patiently(Func<int> attempt, CancellationToken cancel = default(CancellationToken))
        {
            for (;;)
            {
                cancel.ThrowIfCancellationRequested();
                long before = Interlocked.Read(ref room);
                int n = Unbusy(attempt);
                if (n != Native.Again) return Checked(n);
                using (cancel.Register(Pulse))
                lock (gate)
                {
                    writers++;
                    try
                    {
                        if (leader == null) keep.Set();
                        while (room == before && ended == null && !cancel.IsCancellationRequested) Await(Timeout.Infinite);
                    }
                    finally
                    {
                        writers--;
                    }
                    if (ended != null) throw ended;
                }
            }
        }

        void Pulse()
        {
            lock (gate)
            {
                Monitor.PulseAll(gate);
                // It may be who sleeps in the library.
                if (leader != null && leader != taker) Native.bw_wake(raw);
            }
        }

        unsafe delegate int WithBytes(byte* data, UIntPtr len);

        static unsafe int Pinned(ArraySegment<byte> data, WithBytes work)
        {
            if (data.Count == 0) return work(null, UIntPtr.Zero);
            fixed (byte* from = &data.Array[data.Offset]) return work(from, (UIntPtr)data.Count);
        }

        async Task<ulong> Start(ulong token, Func<int> attempt, CancellationToken cancel = default(CancellationToken))
        {
            var to = new TaskCompletionSource<ulong>(TaskCreationOptions.RunContinuationsAsynchronously);
            opening[token] = to;
            try
            {
                // Looks first whether it was cancelled before there was anything to give up.
                Patiently(attempt, cancel);
            }
            catch
            {
                opening.TryRemove(token, out _);
                throw;
            }
            Summon();
            if (ended != null) to.TrySetException(ended);
            return await to.Task.ConfigureAwait(false);
        }

        /// <summary>Asks for connections on a UDP port; completes when it is there.</summary>
        public Task ListenAsync(ushort udpPort)
        {
            ulong token = (ulong)Interlocked.Increment(ref tokens);
            return Start(token, () => Native.bw_listen(raw, udpPort, token));
        }

        /// <summary>Opens a flow to an address such as 10.0.0.2:888. Unordered: messages may arrive in another order than sent.</summary>
        public async Task<ulong> ConnectAsync(string remote, bool ordered = true, CancellationToken cancel = default(CancellationToken))
        {
            Native.Addr addr;
            Checked(Native.bw_addr_parse(Native.Text(remote), 0, out addr));
            var how = new Native.ConnectOptions { Unordered = (byte)(ordered ? 0 : 1) };
            ulong token = (ulong)Interlocked.Increment(ref tokens);
            using (cancel.Register(() =>
            {
                TaskCompletionSource<ulong> to;
                if (!opening.TryRemove(token, out to) || !to.TrySetCanceled()) return;
                Unbusy(() => Native.bw_cancel(raw, token));
            }))
            {
                return await Start(token, () => Native.bw_connect(raw, ref addr, ref how, token), cancel).ConfigureAwait(false);
            }
        }

        /// <summary>Queues a message, and waits for room while there is none.</summary>
        public void Send(ulong flow, byte[] data, CancellationToken cancel = default(CancellationToken))
        {
            Send(flow, new ArraySegment<byte>(data), cancel);
        }

        /// <summary>Queues a message, and waits for room while there is none. It is copied once, into shared memory.</summary>
        public unsafe void Send(ulong flow, ArraySegment<byte> data, CancellationToken cancel = default(CancellationToken))
        {
            Patiently(() => Pinned(data, (p, n) => Native.bw_send(raw, flow, p, n)), cancel);
        }

        /// <summary>Queues a message; FullException while there is no room.</summary>
        public unsafe void TrySend(ulong flow, ArraySegment<byte> data)
        {
            Checked(Unbusy(() => Pinned(data, (p, n) => Native.bw_send(raw, flow, p, n))));
        }

        /// <summary>As TrySend of a segment.</summary>
        public void TrySend(ulong flow, byte[] data) { TrySend(flow, new ArraySegment<byte>(data)); }

        /// <summary>
        /// Sends a request, whose answer is the result: or TimeoutException, ServerFailureException, FlowEndedException. The deadline goes to
        /// the server; a cancellation tells it.
        /// </summary>
        /// <param name="flow">The flow.</param>
        /// <param name="data">The request.</param>
        /// <param name="timeout">For the answer; null: for ever.</param>
        /// <param name="cancel">Gives it up.</param>
        public unsafe Task<byte[]> CallAsync(ulong flow, byte[] data, TimeSpan? timeout, CancellationToken cancel = default(CancellationToken))
        {
            ulong us = Microseconds(timeout), id = 0;
            Patiently(() => Pinned(new ArraySegment<byte>(data), (p, n) => Native.bw_request(raw, flow, p, n, us, out id)), cancel);
            return Asked(id, cancel);
        }

        // Ticks are 100 ns.
        static ulong Microseconds(TimeSpan? timeout) { return timeout == null ? 0 : (ulong)Math.Max(1, timeout.Value.Ticks / 10); }

        Task<byte[]> Asked(ulong id, CancellationToken cancel)
        {
            var call = Answered(id);
            Summon();
            if (ended != null) call.TrySetException(ended);
            return Answer(id, call, cancel);
        }

        async Task<byte[]> Answer(ulong id, TaskCompletionSource<byte[]> call, CancellationToken cancel)
        {
            try
            {
                // 0: its answer is an event already, and comes.
                using (cancel.Register(() =>
                {
                    if (Unbusy(() => Native.bw_request_cancel(raw, id)) == 1) call.TrySetCanceled();
                }))
                {
                    return await call.Task.ConfigureAwait(false);
                }
            }
            finally
            {
                asked.TryRemove(id, out _);
            }
        }

        /// <summary>Answers a request.</summary>
        public unsafe void Respond(Event request, byte[] data)
        {
            var all = new ArraySegment<byte>(data);
            Patiently(() => Pinned(all, (p, n) => Native.bw_respond(raw, request.Flow, request.Number, p, n)));
        }

        /// <summary>Says that a request has no response.</summary>
        public void Fail(Event request, ushort code, string why)
        {
            byte[] text = Native.Text(why);
            Patiently(() => Native.bw_fail(raw, request.Flow, request.Number, code, text));
        }

        /// <summary>Waits for an event; null when the time was over. Without a time-out: for ever.</summary>
        public Event Next(TimeSpan? timeout = null, CancellationToken cancel = default(CancellationToken))
        {
            Native.Event e;
            if (!Taken(timeout, cancel, out e)) return null;
            return new Event((EventKind)e.Kind, e.Flow, e.Reason, e.Token) { Data = HasBody(ref e) ? Take(ref e) : Nothing };
        }

        /// <summary>Waits for an event, whose message is not read yet. False: the time was over.</summary>
        bool Taken(TimeSpan? timeout, CancellationToken cancel, out Native.Event e)
        {
            e = default(Native.Event);
            var clock = timeout == null ? null : System.Diagnostics.Stopwatch.StartNew();
            using (cancel.Register(Pulse))
            lock (gate)
            {
                while (queue.Count == 0)
                {
                    if (ended != null) throw ended;
                    cancel.ThrowIfCancellationRequested();
                    double left = timeout == null ? -1 : Math.Ceiling((timeout.Value - clock.Elapsed).TotalMilliseconds);
                    if (timeout != null && left <= 0) return false;
                    int ms = left > int.MaxValue ? int.MaxValue : (int)left;
                    if (leader == null && !stopping && !IsNeeded) Lead(ms);
                    else
                    {
                        // When it keeps watch only, it makes room.
                        if (leader == taker && !IsNeeded) Native.bw_wake(raw);
                        Await(ms);
                    }
                }
                e = queue.Dequeue();
                return true;
            }
        }

        /// <summary>Takes an event, or waits for one for a while. With the lock, which it lets go for that.</summary>
        void Lead(int ms)
        {
            leader = Thread.CurrentThread;
            Monitor.Exit(gate);
            var e = default(Native.Event);
            int got = 0;
            try
            {
                got = Native.bw_wait_event(raw, ms, out e);
            }
            finally
            {
                Monitor.Enter(gate);
                leads++;
                if (Leave(got, ref e)) handed.Enqueue(e);
                if (asleep || handed.Count > 0 || ended != null || IsNeeded) keep.Set();
            }
        }

        /// <summary>Ends a flow after everything sent on it was acknowledged; an event of kind Closed follows.</summary>
        public void CloseFlow(ulong flow) { Patiently(() => Native.bw_close(raw, flow)); }

        /// <summary>Who is at the other end of a flow; null: it is not encrypted, or gone.</summary>
        public Identity Peer(ulong flow)
        {
            var raw = new byte[Native.NameLen + Native.KeyLen];
            if (Checked(Unbusy(() => Native.bw_peer(this.raw, flow, raw))) == 0) return null;
            var key = new byte[Native.KeyLen];
            Array.Copy(raw, Native.NameLen, key, 0, key.Length);
            return new Identity(Encoding.UTF8.GetString(raw, 0, Array.IndexOf(raw, (byte)0)), key);
        }

        /// <summary>Ends a flow at once.</summary>
        public void Reset(ulong flow) { Patiently(() => Native.bw_reset(raw, flow)); }

        /// <summary>Ends the client: flows are reset, waits end, and everything on it fails with ClosedException.</summary>
        public void Dispose()
        {
            stopping = true;
            do
            {
                keep.Set();
                Native.bw_wake(raw);
            }
            while (!taker.Join(1));
            End(new ClosedException("the client was closed"));
            // A thread that takes events is woken until it has left.
            if (Interlocked.Exchange(ref freed, 1) == 0)
                while (Native.bw_client_free(raw) == Native.Busy)
                {
                    Native.bw_wake(raw);
                    Thread.Yield();
                }
            GC.SuppressFinalize(this);
        }
    }

    /// <summary>barewire.h.</summary>
    static unsafe class Native
    {
        const string Library = "barewire";
        internal const int Handle = -2, Busy = -3, Again = -4, TooLarge = -5, DaemonGone = -8, Interrupted = -10, PortTaken = -14, Refused = -15, Security = -24;
        /// <summary>A bw_identity: a name, ended by a zero byte, and a key.</summary>
        internal const int NameLen = 17, KeyLen = 32;
        /// <summary>Where the body begins in the message of a request or an answer.</summary>
        internal const int Head = 16;

        [StructLayout(LayoutKind.Sequential)]
        internal struct Addr
        {
            internal byte Family, Reserved;
            internal ushort Port;
            internal uint Scope;
            internal ulong Ip0, Ip1;
        }

        [StructLayout(LayoutKind.Sequential, Pack = 4)]
        internal struct ConnectOptions
        {
            internal byte LocalFamily, LocalReserved;
            internal ushort LocalPort;
            internal uint LocalScope;
            internal ulong LocalIp0, LocalIp1;
            internal byte Unordered, R0, R1, R2, R3, R4, R5, R6;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Message
        {
            internal ulong Flow;
            internal uint Offset, Len;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Event
        {
            internal uint Kind, Reason;
            internal ulong Flow, Token;
            internal Message Message;
            internal Addr Local, Remote;
        }

        /// <summary>As C has it; null stays null.</summary>
        internal static byte[] Text(string text) { return text == null ? null : Encoding.UTF8.GetBytes(text + "\0"); }

        internal static string Text(IntPtr text)
        {
            byte* from = (byte*)text;
            int n = 0;
            while (from[n] != 0) n++;
            return Encoding.UTF8.GetString(from, n);
        }

        [DllImport(Library)] internal static extern IntPtr bw_version();
        [DllImport(Library)] internal static extern IntPtr bw_last_error();
        [DllImport(Library)] internal static extern int bw_client_attach(byte[] name, byte[] socket, out IntPtr client);
        [DllImport(Library)] internal static extern int bw_client_free(IntPtr client);
        [DllImport(Library)] internal static extern int bw_requests(IntPtr client, uint unanswered_max);
        [DllImport(Library)] internal static extern int bw_addr_parse(byte[] text, ushort udp_port, out Addr addr);
        [DllImport(Library)] internal static extern int bw_listen(IntPtr client, ushort udp_port, ulong token);
        [DllImport(Library)] internal static extern int bw_connect(IntPtr client, ref Addr remote, ref ConnectOptions options, ulong token);
        [DllImport(Library)] internal static extern int bw_cancel(IntPtr client, ulong token);
        [DllImport(Library)] internal static extern int bw_close(IntPtr client, ulong flow);
        [DllImport(Library)] internal static extern int bw_reset(IntPtr client, ulong flow);
        [DllImport(Library)] internal static extern int bw_peer(IntPtr client, ulong flow, [In, Out] byte[] identity);
        [DllImport(Library)] internal static extern int bw_wait_event(IntPtr client, int timeout_ms, out Event e);
        [DllImport(Library)] internal static extern int bw_wake(IntPtr client);
        [DllImport(Library)] internal static extern int bw_send(IntPtr client, ulong flow, byte* data, UIntPtr len);
        [DllImport(Library)] internal static extern int bw_flush(IntPtr client);
        [DllImport(Library)]
        internal static extern int bw_message_read_at(IntPtr client, ref Message message, UIntPtr at, byte* to, UIntPtr len);
        [DllImport(Library)] internal static extern int bw_message_release(IntPtr client, ref Message message);
        [DllImport(Library)]
        internal static extern int bw_request(IntPtr client, ulong flow, byte* data, UIntPtr len, ulong timeout_us, out ulong request);
        [DllImport(Library)] internal static extern int bw_request_cancel(IntPtr client, ulong request);
        [DllImport(Library)] internal static extern int bw_respond(IntPtr client, ulong flow, ulong request, byte* data, UIntPtr len);
        [DllImport(Library)] internal static extern int bw_fail(IntPtr client, ulong flow, ulong request, ushort code, byte[] why);
    }
}
