typedef bit<8> byte;
type bit<16> Port;
enum bit<8> Kind { A = 1, B = 2 }
enum Plain { X, Y, Z }
const byte K = 7 << 1;
const int BIG = 3 * 5 - (2 + K) / 2;
header h_t { byte a; bit<16> b; int<8> c; bool d; Kind k; bit<6> pad; bit<1> z; }
struct Pair<T> { T x; T y; }
struct M { byte a; bit<16> b; int<8> c; bool d; Pair<byte> p; tuple<bit<4>, bool> t; Port port; Plain e; bit<128> w; }
struct H { h_t h; h_t g; }
byte f(inout byte p, in byte q) { if (p > q) { p = p - q; return p; } p = p |+| q; return (byte) (q[3:0] ++ p[7:4]); }
T same<T>(in T a) { return a; }
void swap(inout bit<16> l, inout bit<16> r) { bit<16> t = l; l = r; r = t; }
parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) { state start { b.extract(h.h); transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t s) {
    byte t = K;
    int<8> n = -3;
    apply {
        m.a = f(t, h.h.a) + same(m.a);
        m.b = (h.h.b >> 3) * 5 ^ ~m.b & (bit<16>) h.h.a | 0xf0;
        m.c = n + h.h.c |-| (int<8>) m.a;
        m.d = h.h.d && m.c < 0 || !(m.b == (bit<16>) BIG) != m.d;
        m.p = { x = m.a, y = t };
        m.t = { m.a[5:2], m.d };
        if (m.t[1]) { m.p.y[6:1] = m.a[7:2]; m.w = m.w[103:0] ++ 8w1 ++ h.h.b; }
        h.g = h.h;
        h.h = { 1, 2, -1, true, Kind.B, 0, 1 };
        swap(m.b, h.h.b);
        m.port = (Port) m.b;
        m.e = m.d ? Plain.Y : Plain.Z;
        for (byte i = 0; i < 4 && m.d; i = i + 1) { if (i == 2) continue; m.a = m.a - i; if (m.a == 0) break; }
        for (bit<16> j in 1 .. 5) { m.b = m.b + j; }
        switch (m.a) { 1: 2: { t = 1; } 3: { t = f(m.a, t); } default: { m.w = 1; } }
        switch (m.e) { Plain.X: { m.a += 1; } Plain.Y: { m.a -= 2; } }
        if (h.h == h.g) m.p = { 1, 2 }; else if (m.p == { 3, 4 }) { h.g.setInvalid(); } else { h.h.k = Kind.A; }
        m.w[77:70] = m.a;
        s.egress_spec = (bit<9>) m.b;
    }
}
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { m = { 0, 1, 2, false, { 1, 2 }, { 3, true }, (Port) 5, Plain.X, 9 }; } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out b, in H h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
