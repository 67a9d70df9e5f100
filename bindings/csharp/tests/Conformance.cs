// The C# side of bindings/conformance: `serve PORT`, or `run ADDRESS KIND KEY=VALUE...`.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Barewire;

sealed class Conformance
{
    readonly string address;
    readonly Dictionary<string, string> given;
    readonly Client client = new Client("client");

    Conformance(string[] args)
    {
        address = args[1];
        given = args.Skip(3).Select(pair => pair.Split(new[] { '=' }, 2)).ToDictionary(pair => pair[0], pair => pair[1]);
    }

    static void Check(bool holds, string what)
    {
        if (holds) return;
        Console.Error.WriteLine("not so: " + what);
        Environment.Exit(1);
    }

    static byte[] Bytes(string text) { return Encoding.UTF8.GetBytes(text); }

    static byte[] Pattern(int size, long seed)
    {
        var bytes = new byte[size];
        for (int i = 0; i < size; i++) bytes[i] = unchecked((byte)(i * 31 + seed * 7 + (i >> 8)));
        return bytes;
    }

    // Where there are spans and memory, these are what is tested.
#if NETCOREAPP2_1_OR_GREATER
    static readonly byte[] room = new byte[4096];
    static Event Next(Client client) { return client.Next(room.AsMemory(), null); }
    static void Send(Client client, ulong flow, byte[] data) { client.Send(flow, new ReadOnlySpan<byte>(data)); }
    static void TrySend(Client client, ulong flow, byte[] data) { client.TrySend(flow, new ReadOnlySpan<byte>(data)); }
    static void Return(Client client, Event e) { client.Send(e.Flow, e.Body.Span); }
    static void Respond(Client client, Event e) { client.Respond(e, e.Body.Span); }
    static Task<byte[]> Call(Client client, ulong flow, byte[] data, TimeSpan? within)
    {
        return client.CallAsync(flow, new ReadOnlyMemory<byte>(data), within);
    }
#else
    static Event Next(Client client) { return client.Next(); }
    static void Send(Client client, ulong flow, byte[] data) { client.Send(flow, data); }
    static void TrySend(Client client, ulong flow, byte[] data) { client.TrySend(flow, data); }
    static void Return(Client client, Event e) { client.Send(e.Flow, e.Data); }
    static void Respond(Client client, Event e) { client.Respond(e, e.Data); }
    static Task<byte[]> Call(Client client, ulong flow, byte[] data, TimeSpan? within)
    {
        return client.CallAsync(flow, data, within);
    }
#endif

    static void Serve(ushort port)
    {
        var client = new Client("server");
        client.ListenAsync(port).Wait();
        Console.WriteLine("ready");
        int cancelled = 0;
        for (;;)
        {
            var e = Next(client);
            try
            {
                if (e.Kind == EventKind.Cancelled) cancelled++;
                if (e.Kind == EventKind.Message) Return(client, e);
                if (e.Kind != EventKind.Request) continue;
                string text = e.Data.Length < 16 ? Encoding.UTF8.GetString(e.Data) : "";
                if (text == "hold") continue;
                if (text == "fail") client.Fail(e, 7, "as asked");
                else if (text == "cancelled?") client.Respond(e, Bytes(cancelled.ToString()));
                else Respond(client, e);
            }
            catch (BarewireException why) when (!(why is DaemonGoneException))
            {
                // The flow has ended meanwhile.
            }
        }
    }

    int Number(string key, int otherwise = 1)
    {
        string text;
        return given.TryGetValue(key, out text) ? int.Parse(text) : otherwise;
    }

    Task<ulong> Connect() { return client.ConnectAsync(address, Number("ordered") != 0); }

    Event Must(EventKind kind)
    {
        for (;;)
        {
            var e = client.Next(TimeSpan.FromSeconds(30));
            Check(e != null, "an event of kind " + kind + " comes");
            if (e.Kind == kind) return e;
            Check(e.Kind != EventKind.Closed, "no flow ends meanwhile");
        }
    }

    static async Task<E> Raises<E>(Func<Task> work) where E : Exception
    {
        try
        {
            await work();
        }
        catch (Exception e)
        {
            Check(e is E, typeof(E).Name + ", not " + e);
            return (E)e;
        }
        Check(false, typeof(E).Name + " was not raised");
        return null;
    }

    async Task Echo()
    {
        bool ordered = Number("ordered") != 0;
        var flows = new List<ulong>();
        for (int i = 0; i < Number("flows"); i++) flows.Add(await Connect());
        foreach (int size in given["sizes"].Split(',').Select(int.Parse))
        {
            var expected = flows.ToDictionary(flow => flow, flow => new List<byte[]>());
            for (int n = 0; n < Number("count"); n++)
                foreach (ulong flow in flows)
                {
                    var data = Pattern(size, n + (long)(flow % 256));
                    Send(client, flow, data);
                    expected[flow].Add(data);
                }
            for (int n = Number("count") * flows.Count; n > 0; n--)
            {
                var e = Must(EventKind.Message);
                var waiting = expected[e.Flow];
                int at = waiting.FindIndex(data => data.SequenceEqual(e.Data));
                Check(ordered ? at == 0 || (at > 0 && waiting[0].SequenceEqual(e.Data)) : at >= 0,
                      "what comes back is what was sent, of " + size + " bytes");
                waiting.RemoveAt(at);
            }
        }
    }

    static readonly TimeSpan Minute = TimeSpan.FromMinutes(1);

    async Task<int> Cancelled(ulong flow)
    {
        return int.Parse(Encoding.UTF8.GetString(await client.CallAsync(flow, Bytes("cancelled?"), Minute)));
    }

    async Task Request(ulong flow, int n)
    {
        var data = Pattern(Number("size"), n);
        Check((await Call(client, flow, data, Minute)).SequenceEqual(data), "each answer is to its request");
    }

    async Task Cancellation()
    {
        ulong flow = await Connect();
        int before = await Cancelled(flow);
        var cancel = new CancellationTokenSource();
        var held = client.CallAsync(flow, Bytes("hold"), Minute, cancel.Token);
        cancel.Cancel();
        await Raises<TaskCanceledException>(() => held);
        Check(await Cancelled(flow) == before + 1, "the server hears of it");
    }

    async Task Pressure()
    {
        ulong flow = await Connect();
        int sent = 0;
        try
        {
            for (;; sent++) TrySend(client, flow, Pattern(Number("size"), sent));
        }
        catch (FullException)
        {
            Check(sent > 0, "some were taken");
        }
        for (int got = 0; got < sent; got++)
            Check(Must(EventKind.Message).Data.SequenceEqual(Pattern(Number("size"), got)), "echoes come in order");
        // And there is room again.
        client.Send(flow, Bytes("x"));
        Check(Encoding.UTF8.GetString(Must(EventKind.Message).Data) == "x", "room comes back");
    }

    /// Its memory is looked at from outside, at each of the two lines.
    async Task Flat()
    {
        ulong flow = await Connect();
        var data = Pattern(Number("size"), 0);
        int count = Number("count", 4), sent = 0;
        for (int got = 1; got <= count; got++)
        {
            for (; sent < count && sent < got + 31; sent++) client.Send(flow, data);
            Check(Must(EventKind.Message).Data.Length == data.Length, "echoes come");
            if (got != count / 4 && got != count) continue;
            Console.WriteLine("at " + got);
            Console.ReadLine();
        }
    }

    async Task Deadlines()
    {
        ulong flow = await Connect();
        var within = TimeSpan.FromMilliseconds(Number("timeout_ms"));
        var all = Enumerable.Range(0, Number("count")).Select(n => client.CallAsync(flow, Bytes("hold"), within)).ToList();
        foreach (var call in all)
        {
            Check(await Task.WhenAny(call, Task.Delay(30000)) == call, "each of them ends");
            await Raises<TimeoutException>(() => call);
        }
    }

    async Task BothWays()
    {
        ulong flow = await Connect();
        var data = Pattern(Number("size"), 0);
        var reader = Task.Factory.StartNew(() =>
        {
            for (int n = 0; n < Number("count"); n++) Check(Must(EventKind.Message).Data.SequenceEqual(data), "echoes come");
        }, TaskCreationOptions.LongRunning);
        for (int n = 0; n < Number("count"); n++) client.Send(flow, data);
        await reader;
    }

    async Task PeerKilledSending()
    {
        ulong flow = await Connect();
        var data = Pattern(Number("size"), 0);
        client.Send(flow, Bytes("x"));
        Must(EventKind.Message);
        Console.WriteLine("connected");
        Console.ReadLine();
        // The peer stands still.
        await Raises<FullException>(async () => { for (;;) client.TrySend(flow, data); });
        Console.WriteLine("full");
        var why = await Raises<BarewireException>(async () => { for (;;) client.Send(flow, data); });
        Check(why.Code == -6 || why.Code == -7, "no such flow, or it is closing, not " + why);
    }

    async Task CloseUnread()
    {
        ulong flow = await Connect();
        var data = Pattern(Number("size"), 0);
        for (int n = 0; n <= Number("count"); n++) client.Send(flow, data);
        Must(EventKind.Message);
        await Task.Delay(100);
        var reader = Task.Factory.StartNew(() =>
        {
            for (;;)
            {
                var e = client.Next();
                Check(e.Kind != EventKind.Message || e.Data.SequenceEqual(data), "what was sent, or an error");
            }
        }, TaskCreationOptions.LongRunning);
        client.Dispose();
        await Raises<ClosedException>(() => reader);
    }

    async Task ConnectCancelled()
    {
        for (int n = 0; n < Number("count"); n++)
        {
            var cancel = new CancellationTokenSource();
            var attempt = client.ConnectAsync(address, true, cancel.Token);
            Thread.SpinWait(n * 70 % 20000);
            cancel.Cancel();
            try
            {
                client.Reset(await attempt);
            }
            catch (OperationCanceledException)
            {
                // Given up.
            }
        }
        Console.WriteLine("cancelled");
        Console.ReadLine();
    }

    async Task CloseCalling()
    {
        ulong flow = await Connect();
        var held = Enumerable.Range(0, Number("count")).Select(n => client.CallAsync(flow, Bytes("hold"), Minute)).ToList();
        client.Dispose();
        foreach (var call in held) await Raises<ClosedException>(() => call);
        await Raises<ClosedException>(() => client.CallAsync(flow, Bytes("hold"), null));
    }

    async Task CloseWaiting()
    {
        var held = client.CallAsync(await Connect(), Bytes("hold"), null);
        var waiter = Task.Factory.StartNew(() => client.Next(), TaskCreationOptions.LongRunning);
        client.Dispose();
        await Raises<ClosedException>(() => waiter);
        await Raises<ClosedException>(() => held);
    }

    async Task<bool> Run(string kind)
    {
        ulong flow;
        switch (kind)
        {
            case "echo":
                await Echo();
                break;
            case "too_large":
                flow = await Connect();
                await Raises<TooLargeException>(async () => { client.TrySend(flow, new byte[Number("size")]); await Task.Yield(); });
                break;
            case "refused":
                await Raises<RefusedException>(() => client.ConnectAsync(address.Split(':')[0] + ":1"));
                break;
            case "wrong_key":
                await Raises<KeysException>(() => client.ConnectAsync(address));
                break;
            case "peer":
                flow = await Connect();
                var peer = client.Peer(flow);
                Check((peer != null) == given.ContainsKey("name"), "somebody, or nobody");
                if (peer != null)
                {
                    string key = BitConverter.ToString(peer.Key).Replace("-", "").ToLowerInvariant();
                    Check(peer.Name == given["name"] && key == given["key"], "the one who is expected");
                }
                Check(client.Peer(flow + 1) == null, "nobody on no flow");
                break;
            case "requests":
                flow = await Connect();
                await Task.WhenAll(Enumerable.Range(0, Number("count")).Select(n => Request(flow, n)));
                break;
            case "deadline":
                flow = await Connect();
                var within = TimeSpan.FromMilliseconds(Number("timeout_ms"));
                await Raises<TimeoutException>(() => client.CallAsync(flow, Bytes("hold"), within));
                break;
            case "deadlines":
                await Deadlines();
                break;
            case "both_ways":
                await BothWays();
                break;
            case "peer_killed_sending":
                await PeerKilledSending();
                break;
            case "close_unread":
                await CloseUnread();
                break;
            case "connect_cancelled":
                await ConnectCancelled();
                break;
            case "failure":
                flow = await Connect();
                var failure = await Raises<ServerFailureException>(() => client.CallAsync(flow, Bytes("fail"), Minute));
                Check(failure.ServerCode == 7 && failure.Message == "as asked", "its code and text");
                break;
            case "cancellation":
                await Cancellation();
                break;
            case "pressure":
                await Pressure();
                break;
            case "close_wait":
                flow = await Connect();
                for (int n = 0; n < Number("count"); n++) Send(client, flow, Pattern(Number("size"), n));
                client.CloseFlow(flow);
                Check(Must(EventKind.Closed).Reason == CloseReason.Local, "closed by this side, all acknowledged");
                break;
            case "use_after_close":
                flow = await Connect();
                client.Dispose();
                await Raises<ClosedException>(async () => { client.TrySend(flow, Bytes("x")); await Task.Yield(); });
                await Raises<ClosedException>(async () => { client.Next(); await Task.Yield(); });
                await Raises<ClosedException>(() => client.ConnectAsync(address));
                client.Dispose();
                break;
            case "flat":
                await Flat();
                break;
            case "close_calling":
                await CloseCalling();
                break;
            case "close_waiting":
                await CloseWaiting();
                break;
            case "peer_killed":
                client.Send(await Connect(), Bytes("x"));
                Must(EventKind.Message);
                Console.WriteLine("connected");
                Check(Must(EventKind.Closed).Reason == CloseReason.Reset, "reset by the peer's end");
                break;
            case "daemon_restarted":
                Console.WriteLine("connected");
                await Raises<DaemonGoneException>(async () => { client.Next(TimeSpan.FromSeconds(30)); await Task.Yield(); });
                client.Dispose();
                Console.WriteLine("gone");
                Console.ReadLine();
                using (var again = new Client("again")) await again.ListenAsync(999);
                break;
            default:
                return false;
        }
        return true;
    }

    static int Main(string[] args)
    {
        if (args[0] == "serve") Serve(ushort.Parse(args[1]));
        else Console.WriteLine(new Conformance(args).Run(args[2]).GetAwaiter().GetResult() ? "ok" : "SKIPPED");
        return 0;
    }
}
