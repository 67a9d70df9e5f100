// What Client has besides on .NET Core 2.1, .NET Standard 2.1 and newer: spans and memory. Compilers for older platforms see nothing here.
#if NETSTANDARD2_1_OR_GREATER || NETCOREAPP2_1_OR_GREATER
using System;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Barewire
{
    public sealed partial class Event
    {
        ReadOnlyMemory<byte> body;

        /// <summary>Of Message and Request: the body. It is in the memory that Next was given, if it fits there.</summary>
        public ReadOnlyMemory<byte> Body
        {
            get { return data == null ? body : data; }
            internal set { body = value; }
        }

        partial void Own()
        {
            if (data == null) data = body.ToArray();
        }
    }

    public sealed partial class Client
    {
        /// <summary>Queues a message, and waits for room while there is none. It is copied once, into shared memory.</summary>
        public unsafe void Send(ulong flow, ReadOnlySpan<byte> data, CancellationToken cancel = default(CancellationToken))
        {
            fixed (byte* pinned = &MemoryMarshal.GetReference(data))
            {
                // A lambda takes no span and nothing that is pinned; this frame keeps both.
                byte* from = pinned;
                var len = (UIntPtr)data.Length;
                Patiently(() => Native.bw_send(raw, flow, from, len), cancel);
            }
        }

        /// <summary>Queues a message; FullException while there is no room.</summary>
        public unsafe void TrySend(ulong flow, ReadOnlySpan<byte> data)
        {
            fixed (byte* pinned = &MemoryMarshal.GetReference(data))
            {
                byte* from = pinned;
                var len = (UIntPtr)data.Length;
                Checked(Unbusy(() => Native.bw_send(raw, flow, from, len)));
            }
        }

        /// <summary>As CallAsync of an array. The request is copied before the call returns.</summary>
        public unsafe Task<byte[]> CallAsync(
            ulong flow, ReadOnlyMemory<byte> data, TimeSpan? timeout, CancellationToken cancel = default(CancellationToken))
        {
            ulong us = Microseconds(timeout), id = 0;
            fixed (byte* pinned = &MemoryMarshal.GetReference(data.Span))
            {
                byte* from = pinned;
                var len = (UIntPtr)data.Length;
                Patiently(() => Native.bw_request(raw, flow, from, len, us, out id), cancel);
            }
            return Asked(id, cancel);
        }

        /// <summary>Answers a request.</summary>
        public unsafe void Respond(Event request, ReadOnlySpan<byte> data)
        {
            fixed (byte* pinned = &MemoryMarshal.GetReference(data))
            {
                byte* from = pinned;
                var len = (UIntPtr)data.Length;
                Patiently(() => Native.bw_respond(raw, request.Flow, request.Number, from, len));
            }
        }

        /// <summary>
        /// Waits for an event as Next does, and copies a body that fits into the caller's memory, without an array: Body is a part of it,
        /// until the next call with the same memory. A longer one has an array of its own.
        /// </summary>
        public unsafe Event Next(
            Memory<byte> into, TimeSpan? timeout = null, CancellationToken cancel = default(CancellationToken))
        {
            Native.Event e;
            if (!Taken(timeout, cancel, out e)) return null;
            var told = new Event((EventKind)e.Kind, e.Flow, e.Reason, e.Token);
            long len = HasBody(ref e) ? BodyOf(ref e) : 0;
            if (!HasBody(ref e)) told.Data = Nothing;
            else if (len > into.Length) told.Data = Take(ref e);
            else
            {
                var room = into.Slice(0, (int)len);
                fixed (byte* to = &MemoryMarshal.GetReference(room.Span)) Take(ref e, to, room.Length);
                told.Body = room;
            }
            return told;
        }
    }
}
#endif
