// PSA: numbers of the data plane and their form in headers, from one to the other
#include <core.p4>
#include <psa.p4>
header tag { PortIdInHeader_t port; TimestampInHeader_t time; CloneSessionIdInHeader_t session; }
PortId_t there(in tag from) {
    return psa_PortId_header_to_int(from.port);
}
void back(inout tag to, in Timestamp_t time, in CloneSessionId_t session) {
    to.time = psa_Timestamp_int_to_header(time);
    to.session = psa_CloneSessionId_int_to_header(session);
    to.port = psa_PortId_int_to_header((PortId_t) 32w5);
}
