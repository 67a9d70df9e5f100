//! AF_PACKET port
