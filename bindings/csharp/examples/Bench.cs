// Requests and responses, timed: through the barewire daemon, or over an ordinary blocking TCP socket.
//
//     mono bench.exe serve barewire 888 SIZE
//     mono bench.exe run barewire 10.0.0.2:888 SIZE WINDOW WARMUP_MS MEASURE_MS FILE
//
// `tcp` instead of `barewire` has a port of 0 for any. A server says `ready PORT`, and ends after its client. A client leaves each
// round trip in FILE, as ns in 32 bits, and says `measured` and the ns that they took.
using System;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using Barewire;

interface ILink : IDisposable
{
    void Send(byte[] data);
    byte[] Receive();
}

sealed class Messages : ILink
{
    readonly Client client = new Client("bench client");
    readonly ulong flow;

    public Messages(string where) { flow = client.ConnectAsync(where).GetAwaiter().GetResult(); }

    public void Send(byte[] data) { client.Send(flow, data); }

    public byte[] Receive()
    {
        for (;;)
        {
            var e = client.Next();
            if (e.Kind == EventKind.Message) return e.Data;
            if (e.Kind == EventKind.Closed) throw new EndOfStreamException("the flow ended");
        }
    }

    public void Dispose() { client.Dispose(); }
}

/// A length of four bytes, and so many bytes.
sealed class Tcp : ILink
{
    readonly Socket socket;
    readonly byte[] incoming, outgoing, body;

    public Tcp(Socket socket, int size)
    {
        this.socket = socket;
        socket.NoDelay = true;
        incoming = new byte[size + 4];
        outgoing = new byte[size + 4];
        body = new byte[size];
        for (int i = 0; i < 4; i++) outgoing[i] = unchecked((byte)(size >> (8 * i)));
    }

    public void Send(byte[] data)
    {
        Buffer.BlockCopy(data, 0, outgoing, 4, data.Length);
        for (int at = 0; at < outgoing.Length;) at += socket.Send(outgoing, at, outgoing.Length - at, SocketFlags.None);
    }

    public byte[] Receive()
    {
        for (int at = 0; at < incoming.Length;)
        {
            int n = socket.Receive(incoming, at, incoming.Length - at, SocketFlags.None);
            if (n == 0) throw new EndOfStreamException("the connection ended");
            at += n;
        }
        for (int i = 0; i < 4; i++)
            if (incoming[i] != outgoing[i]) throw new InvalidDataException("a message of another length");
        Buffer.BlockCopy(incoming, 4, body, 0, body.Length);
        return body;
    }

    public void Dispose() { socket.Dispose(); }
}

static class Bench
{
    static Socket NewSocket() { return new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp); }

    static void ServeTcp(int port, int size)
    {
        using (var listener = NewSocket())
        {
            listener.Bind(new IPEndPoint(IPAddress.Any, port));
            listener.Listen(1);
            Console.WriteLine("ready " + ((IPEndPoint)listener.LocalEndPoint).Port);
            using (var link = new Tcp(listener.Accept(), size))
                for (;;) link.Send(link.Receive());
        }
    }

    static void Serve(ushort port)
    {
        using (var client = new Client("bench server"))
        {
            client.ListenAsync(port).GetAwaiter().GetResult();
            Console.WriteLine("ready " + port);
            for (;;)
            {
                var e = client.Next();
                if (e.Kind == EventKind.Message) client.Send(e.Flow, e.Data);
                if (e.Kind == EventKind.Closed) return;
            }
        }
    }

    static readonly double NsPerTick = 1e9 / Stopwatch.Frequency;

    static long Now() { return (long)(Stopwatch.GetTimestamp() * NsPerTick); }

    static void Measure(ILink link, int size, int window, long warmup, long measured, string file)
    {
        var data = Enumerable.Range(0, size).Select(i => unchecked((byte)(i * 31))).ToArray();
        link.Send(data);
        if (!link.Receive().SequenceEqual(data)) throw new InvalidDataException("another answer than what was sent");
        var sent = new long[window];
        var times = new uint[1 << 22];
        int next = 0, count = 0;
        long begin = Now() + warmup, end = begin + measured;
        for (int i = 0; i < window; i++)
        {
            sent[i] = Now();
            link.Send(data);
        }
        for (;;)
        {
            if (link.Receive().Length != size) throw new InvalidDataException("an answer of another length");
            long at = Now();
            if (at >= begin)
            {
                if (count == times.Length) Array.Resize(ref times, count * 2);
                times[count++] = (uint)Math.Min(at - sent[next], uint.MaxValue);
            }
            if (at >= end)
            {
                var bytes = new byte[count * 4];
                Buffer.BlockCopy(times, 0, bytes, 0, bytes.Length);
                File.WriteAllBytes(file, bytes);
                Console.WriteLine("measured " + (at - begin));
                return;
            }
            sent[next] = Now();
            link.Send(data);
            next = (next + 1) % window;
        }
    }

    static ILink Connect(bool tcp, string where, int size)
    {
        if (!tcp) return new Messages(where);
        int colon = where.LastIndexOf(':');
        var socket = NewSocket();
        socket.Connect(new IPEndPoint(IPAddress.Parse(where.Substring(0, colon)), int.Parse(where.Substring(colon + 1))));
        return new Tcp(socket, size);
    }

    static int Main(string[] args)
    {
        try
        {
            if (args.Length == 4 && args[0] == "serve")
            {
                try
                {
                    if (args[1] == "tcp") ServeTcp(int.Parse(args[2]), int.Parse(args[3]));
                    else Serve(ushort.Parse(args[2]));
                }
                catch (EndOfStreamException)
                {
                }
                return 0;
            }
            if (args.Length == 8 && args[0] == "run")
            {
                int size = int.Parse(args[3]);
                using (var link = Connect(args[1] == "tcp", args[2], size))
                    Measure(link, size, int.Parse(args[4]), long.Parse(args[5]) * 1000000, long.Parse(args[6]) * 1000000, args[7]);
                return 0;
            }
        }
        catch (Exception e) when (e is BarewireException || e is IOException || e is SocketException || e is InvalidDataException || e is FormatException)
        {
            Console.Error.WriteLine("bench: " + e.Message);
            return 1;
        }
        Console.Error.WriteLine("usage: serve SYSTEM PORT SIZE | run SYSTEM ADDRESS:PORT SIZE WINDOW WARMUP_MS MEASURE_MS FILE");
        return 2;
    }
}
