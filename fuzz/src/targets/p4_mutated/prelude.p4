error { NoError, PacketTooShort, NoMatch, StackOutOfBounds, HeaderTooShort, ParserTimeout, ParserInvalidArgument }
extern packet_in {
    void extract<T>(out T hdr);
    void extract<T>(out T hdr, in bit<32> bits);
    T lookahead<T>();
    void advance(in bit<32> bits);
    bit<32> length();
}
extern packet_out { void emit<T>(in T hdr); }
extern void verify(in bool check, in error e);
action NoAction() {}
match_kind { exact, ternary, lpm, range, optional, selector }
struct standard_metadata_t {
    bit<9> ingress_port; bit<9> egress_spec; bit<9> egress_port; bit<32> instance_type; bit<32> packet_length;
    bit<48> ingress_global_timestamp; bit<16> mcast_grp; bit<1> checksum_error; error parser_error; bit<3> priority;
}
enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }
enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }
enum CloneType { I2E, E2E }
extern counter { counter(bit<32> size, CounterType type); void count(in bit<32> index); }
extern direct_counter { direct_counter(CounterType type); void count(); }
extern meter { meter(bit<32> size, MeterType type); void execute_meter<T>(in bit<32> index, out T result); }
extern direct_meter<T> { direct_meter(MeterType type); void read(out T result); }
extern register<T> { register(bit<32> size); void read(out T result, in bit<32> index); void write(in bit<32> index, in T value); }
extern action_profile { action_profile(bit<32> size); }
extern action_selector { action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> width); }
extern void random<T>(out T result, in T lo, in T hi);
extern void digest<T>(in bit<32> receiver, in T data);
extern void mark_to_drop(inout standard_metadata_t s);
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate_preserving_field_list(bit<8> index);
extern void truncate(in bit<32> length);
extern void assert(in bool check);
extern void log_msg<T>(string msg, in T data);
parser Parser<H, M>(packet_in b, out H h, inout M m, inout standard_metadata_t s);
control VerifyChecksum<H, M>(inout H h, inout M m);
control Ingress<H, M>(inout H h, inout M m, inout standard_metadata_t s);
control Egress<H, M>(inout H h, inout M m, inout standard_metadata_t s);
control ComputeChecksum<H, M>(inout H h, inout M m);
control Deparser<H>(packet_out b, in H h);
package V1Switch<H, M>(Parser<H, M> p, VerifyChecksum<H, M> v, Ingress<H, M> i, Egress<H, M> e, ComputeChecksum<H, M> c, Deparser<H> d);
