// An echo service and a client of it.
//
//     mono echo.exe 888                     answers every message on UDP port 888
//     mono echo.exe 10.0.0.2:888 hello      sends "hello" and prints the answer
using System;
using System.Text;
using Barewire;

static class Echo
{
    static int Main(string[] args)
    {
        if (args.Length != 1 && args.Length != 2)
        {
            Console.Error.WriteLine("usage: echo.exe UDP_PORT | echo.exe ADDRESS:UDP_PORT TEXT");
            return 2;
        }
        try
        {
            using (var client = new Client("echo"))
            {
                return args.Length == 1 ? Serve(client, ushort.Parse(args[0])) : Ask(client, args[0], args[1]);
            }
        }
        catch (Exception e) when (e is BarewireException || e is FormatException || e is OverflowException)
        {
            Console.Error.WriteLine("echo: " + e.Message);
            return 1;
        }
    }

    static int Serve(Client client, ushort udpPort)
    {
        client.ListenAsync(udpPort).GetAwaiter().GetResult();
        Console.WriteLine("listening on UDP port " + udpPort);
        for (;;)
        {
            var e = client.Next();
            if (e.Kind != EventKind.Message) continue;
            try
            {
                client.Send(e.Flow, e.Data);
            }
            catch (BarewireException why) when (!(why is DaemonGoneException))
            {
                Console.Error.WriteLine("echo: not sent: " + why.Message);
            }
        }
    }

    static int Ask(Client client, string where, string text)
    {
        ulong flow = client.ConnectAsync(where).GetAwaiter().GetResult();
        client.Send(flow, Encoding.UTF8.GetBytes(text));
        var e = client.Next(TimeSpan.FromSeconds(5));
        if (e == null || e.Kind != EventKind.Message)
        {
            Console.Error.WriteLine("echo: no answer");
            return 1;
        }
        Console.WriteLine(Encoding.UTF8.GetString(e.Data));
        return 0;
    }
}
