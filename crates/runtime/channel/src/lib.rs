//! Shared-memory channel between an application and the daemon
