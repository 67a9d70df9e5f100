//! Seeded virtual-time network
