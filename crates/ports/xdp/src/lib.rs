//! AF_XDP port on bare system calls
