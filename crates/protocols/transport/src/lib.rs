//! Message transport: flows, reliability, congestion control
