//! From a URI to a port: the wrappers and schemes of this crate, and a door for those of other crates.

use crate::memory::MemoryPort;
use crate::{
    Fault, FaultConfig, GsoConfig, GsoPort, OpenError, PcapPort, Port, PortUri, Trace, TraceConfig, UnixPort,
};
use barewire_frame::Pool;

/// Opens a port of a scheme that is not of this crate; `None`: it does not know the scheme.
pub type OtherSchemes<'a> = dyn FnMut(&PortUri, Pool) -> Option<Result<Box<dyn Port>, OpenError>> + 'a;

/// Opens what `uri` names, wrappers included. Schemes that are not of this crate (`packet`, `xdp`, `dpdk`) are handed, without
/// their wrappers, to `others`; `None` from it means that this build does not have the scheme.
///
/// # Errors
/// [`OpenError`] of whichever part failed; [`OpenError::Unsupported`] for a scheme that nobody opens.
pub fn open(uri: &PortUri, pool: &Pool, others: &mut OtherSchemes<'_>) -> Result<Box<dyn Port>, OpenError> {
    let mut inside = uri.clone();
    if let Some(wrapper) = inside.unwrap_outer() {
        return match wrapper.name.as_str() {
            "fault" => {
                let config = FaultConfig::take(&mut inside)?;
                let port = open(&inside, pool, others)?;
                Ok(Box::new(Fault::new(port, &config).map_err(|why| uri.bad(why))?))
            }
            "gso" => {
                if inside.scheme != "packet" {
                    return Err(uri.bad(format!(
                        "`gso` joins datagrams on `packet:` ports only; `{}:` ports exchange each by itself",
                        inside.scheme
                    )));
                }
                let config = GsoConfig::take(&mut inside)?;
                let large = GsoPort::<Box<dyn Port>>::large_pool();
                let large = large.map_err(|e| uri.bad(format!("memory for frames of 64 KiB: {e}")))?;
                let port = open(&inside.with("gso", 1), &large, others)?;
                let most = GsoPort::<Box<dyn Port>>::chunk_wanted(port.caps());
                if most > pool.frame_max() {
                    return Err(OpenError::Unsupported {
                        uri: uri.text().to_owned(),
                        what: format!(
                            "frames of {most} bytes with chunks that hold {}; hint: use a pool with a larger chunk_len, or lower the MTU",
                            pool.frame_max()
                        ),
                    });
                }
                Ok(Box::new(GsoPort::new(port, config, large, pool.clone())))
            }
            "trace" => {
                let config = TraceConfig::take(&mut inside)?;
                let port = open(&inside, pool, others)?;
                Ok(Box::new(Trace::new(port, &config).map_err(|e| uri.io("create", e))?))
            }
            other => Err(uri.bad(format!("unknown wrapper `{other}`"))),
        };
    }
    let pool = pool.clone();
    match inside.scheme.as_str() {
        "mem" => Ok(Box::new(MemoryPort::from_uri(&inside, pool)?)),
        "pcap" => Ok(Box::new(PcapPort::from_uri(&inside, pool)?)),
        "unix" => Ok(Box::new(UnixPort::from_uri(&inside, pool)?)),
        _ => others(&inside, pool).unwrap_or_else(|| {
            Err(OpenError::Unsupported {
                uri: uri.text().to_owned(),
                what: match inside.scheme.as_str() {
                    "dpdk" => {
                        "this build has no `dpdk:` ports: `make dpdk` builds one that has (needs libdpdk-dev)"
                            .to_owned()
                    }
                    scheme => format!("this build has no `{scheme}:` ports"),
                },
            })
        }),
    }
}
