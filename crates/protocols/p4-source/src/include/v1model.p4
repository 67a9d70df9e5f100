// The architecture of simple_switch: parser, checksum check, ingress, egress, checksum update, deparser.
#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

// A program may ask for a later edition before it includes this file:
//   20200408  PortId_t exists; counters, meters and registers have an index type.
#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif
#if V1MODEL_VERSION < 20180101 || V1MODEL_VERSION > 20200408
#error "V1MODEL_VERSION is an edition of v1model from 20180101 to 20200408"
#endif

#include <core.p4>

match_kind {
    range,
    optional,   // an exact value or anything
    selector    // an input of the hash that picks a group member
}

const bit<32> __v1model_version = V1MODEL_VERSION;

#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#define V1MODEL_PORT PortId_t
#else
#define V1MODEL_PORT bit<9>
#endif

@metadata @name("standard_metadata")
struct standard_metadata_t {
    V1MODEL_PORT ingress_port;
    V1MODEL_PORT egress_spec;       // 511 drops
    V1MODEL_PORT egress_port;       // readable in egress
    bit<32>      instance_type;
    bit<32>      packet_length;     // bytes
    @alias("queueing_metadata.enq_timestamp")
    bit<32>      enq_timestamp;     // microseconds
    @alias("queueing_metadata.enq_qdepth")
    bit<19>      enq_qdepth;
    @alias("queueing_metadata.deq_timedelta")
    bit<32>      deq_timedelta;     // microseconds
    @alias("queueing_metadata.deq_qdepth")
    bit<19>      deq_qdepth;
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48>      ingress_global_timestamp;
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48>      egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp")
    bit<16>      mcast_grp;
    @alias("intrinsic_metadata.egress_rid")
    bit<16>      egress_rid;
    bit<1>       checksum_error;    // 1: verify_checksum failed
    error        parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3>       priority;
}

enum CounterType {
    packets,
    bytes,
    packets_and_bytes
}

enum MeterType {
    packets,
    bytes
}

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

enum CloneType {
    I2E,
    E2E
}

#if V1MODEL_VERSION >= 20200408
extern counter<I> {
    counter(bit<32> size, CounterType type);
    void count(in I index);
}
#else
extern counter {
    counter(bit<32> size, CounterType type);
    void count(in bit<32> index);
}
#endif

extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

// Results.
#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2
#if V1MODEL_VERSION >= 20200408
extern meter<I> {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in I index, out T result);
}
#else
extern meter {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in bit<32> index, out T result);
}
#endif

extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

#if V1MODEL_VERSION >= 20200408
extern register<T, I> {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in I index);
    void write(in I index, in T value);
}
#else
extern register<T> {
    register(bit<32> size);
    @noSideEffects
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
}
#endif

// Table implementations: entries share action data (profile), a hash picks a member (selector).
extern action_profile {
    action_profile(bit<32> size);
}
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// A value from lo to hi, both included.
extern void random<T>(out T result, in T lo, in T hi);

// Sends data to the control plane.
extern void digest<T>(in bit<32> receiver, in T data);

@deprecated("Please use mark_to_drop(standard_metadata) instead.")
extern void mark_to_drop();
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

// base + hash(data) mod max.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

@deprecated("Please use verify_checksum/update_checksum instead.")
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

// Only in the control that checks sums.
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@noSideEffects
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);

// Only in the control that computes sums.
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

// Each takes effect when its pipeline ends. The index names the @field_list of the
// metadata that survives.
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
extern void resubmit_preserving_field_list(bit<8> index);
extern void recirculate_preserving_field_list(bit<8> index);

// How older programs name the metadata that survives: as values, which the packet's next round cannot take over.
@deprecated("Please use 'clone_preserving_field_list' instead")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);
@deprecated("Please use 'resubmit_preserving_field_list' instead")
extern void resubmit<T>(in T data);
@deprecated("Please use 'recirculate_preserving_field_list' instead")
extern void recirculate<T>(in T data);

// To this many bytes.
extern void truncate(in bit<32> length);

extern void assert(in bool check);
extern void assume(in bool check);

extern void log_msg(string msg);
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr,
                             inout M meta);
@pipeline
control Ingress<H, M>(inout H hdr,
                      inout M meta,
                      inout standard_metadata_t standard_metadata);
@pipeline
control Egress<H, M>(inout H hdr,
                     inout M meta,
                     inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr,
                              inout M meta);
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#endif
