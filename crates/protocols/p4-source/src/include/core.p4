// The core library: what every architecture shares (P4-16 specification, appendix D).
#ifndef _CORE_P4_
#define _CORE_P4_

// Reasons for which a parser rejects a packet. An architecture may add its own.
error {
    NoError,                // nothing went wrong
    PacketTooShort,         // extract or advance ran past the end of the packet
    NoMatch,                // no case of a select matched
    StackOutOfBounds,       // header stack index outside the stack
    HeaderTooShort,         // varbit longer than its type allows
    ParserTimeout,          // the target's limit on parsing
    ParserInvalidArgument   // an argument the target cannot do
}

// The packet on its way into a parser.
extern packet_in {
    // A fixed-size header.
    void extract<T>(out T hdr);
    // A header with one varbit field, whose width in bits is the second argument.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // Reads without moving on.
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    // In bytes.
    bit<32> length();
}

// The packet a deparser builds.
extern packet_out {
    // Appends a header if it is valid; of a struct or stack, each member in order.
    void emit<T>(in T hdr);
}

// Leaves for the reject state with this error when the check is false.
extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {}

match_kind {
    exact,
    ternary,
    lpm
}

// Checked by the compiler; the result is always true.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
