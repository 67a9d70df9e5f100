//! RDMA for applications, in the words of libibverbs and librdmacm: a device in software on any port.
//!
//! [`Device`] is the embedded mode: port, host and endpoint in the application's own thread. The verbs themselves are those of
//! [`barewire_roce::Endpoint`], which [`Device::verbs`] gives; what has to be polled for (ways, connections, completions) has a
//! waiting form here, with a time-out.
//!
//! [`context::Context`] is a device at the daemon, which several applications share, each seeing its own objects only. It has the
//! same verbs, and waiting forms likewise.
//!
//! ```
//! use barewire_base::Duration;
//! use barewire_roce::{Access, Data, QpInit, SendOp, SendWr, Sge};
//! use barewire_verbs::{Device, DeviceConfig, Memory};
//!
//! // Both ends on one device: frames to our own address never leave it.
//! let mut device = Device::open(&DeviceConfig::new("mem:verbs-doc", [10, 0, 0, 1].into()))?;
//! let verbs = device.verbs();
//! let (pd, cq) = (verbs.alloc_pd(), verbs.create_cq(256)?);
//! let memory = Memory::register(verbs, pd, 4096, Access::ALL)?;
//! memory.write(0, b"hello");
//! let listener = device.listen(50, 16)?;
//! let client = device.start_connect([10, 0, 0, 1].into(), 50, &QpInit::rc(pd, cq), b"")?;
//! let request = device.next_request(listener, Duration::from_secs(1))?;
//! let server = device.accept(&request, &QpInit::rc(pd, cq), b"")?;
//! let client = device.finish_connect(client, Duration::from_secs(1))?;
//! let to = SendOp::Write { addr: memory.addr() + 100, rkey: memory.rkey() };
//! device.verbs().post_send(client.qpn, &SendWr::new(1, to, Data::Sges(&[memory.sge(0, 5)])))?;
//! let done = device.wait_cq(cq, Duration::from_secs(1))?;
//! assert_eq!((done.wr_id, memory.read(100, 5)), (1, b"hello".to_vec()));
//! # let _ = server;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod context;
mod device;
mod error;
mod memory;

pub use barewire_engine::PortSettings;
pub use context::{Context, ContextConfig, ContextError};
pub use device::{ConnectRequest, Connection, Device, DeviceConfig, Pending};
pub use error::{OpenError, RdmaError};
pub use memory::Memory;
