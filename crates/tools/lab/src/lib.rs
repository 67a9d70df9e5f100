//! Network namespaces and links on one machine
