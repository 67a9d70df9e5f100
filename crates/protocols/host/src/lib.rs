//! One host on a port: ARP, ND, ICMP, UDP demultiplexing
