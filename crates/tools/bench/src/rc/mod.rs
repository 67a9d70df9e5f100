//! RDMA from the command line: [`rate`] measures how fast connections are made, and what goes over them.

pub mod rate;
