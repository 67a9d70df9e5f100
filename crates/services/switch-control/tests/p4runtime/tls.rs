//! TLS: certificates of a made-up authority, valid for a hundred years.

use crate::rig::DEVICE;
use barewire_switch::control::{Switch, SwitchConfig};
use barewire_switch_control::p4runtime::message::{CapabilitiesRequest, CapabilitiesResponse};
use barewire_switch_control::p4runtime::{GrpcError, GrpcOptions, GrpcServer, Tls};
use std::path::PathBuf;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use tonic::{Request, Status};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls").join(name)
}

fn pem(name: &str) -> Vec<u8> {
    std::fs::read(file(name)).unwrap()
}

fn start(client_auth: bool) -> GrpcServer {
    let switch = Switch::new(SwitchConfig::default(), None).unwrap();
    let tls =
        Tls { cert: file("server.pem"), key: file("server.key"), ca_cert: Some(file("ca.pem")), client_auth };
    let options = GrpcOptions { device_id: DEVICE, tls: Some(tls), ..GrpcOptions::default() };
    GrpcServer::start("127.0.0.1:0".parse().unwrap(), switch, options).unwrap()
}

fn version(server: &GrpcServer, tls: Option<ClientTlsConfig>) -> Result<String, Status> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let scheme = if tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}", server.local_addr());
    runtime.block_on(async {
        let mut endpoint = Channel::from_shared(address).unwrap();
        if let Some(tls) = tls {
            endpoint = endpoint.tls_config(tls).unwrap();
        }
        let failed = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let mut grpc = tonic::client::Grpc::new(endpoint.connect().await.map_err(failed)?);
        grpc.ready().await.map_err(failed)?;
        let codec = tonic_prost::ProstCodec::<CapabilitiesRequest, CapabilitiesResponse>::default();
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Capabilities");
        let answer = grpc.unary(Request::new(CapabilitiesRequest {}), path, codec).await?;
        Ok(answer.into_inner().p4runtime_api_version)
    })
}

fn trusting() -> ClientTlsConfig {
    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem("ca.pem"))).domain_name("localhost")
}

#[test]
fn clients_are_let_in_as_the_options_say() {
    let known = || trusting().identity(Identity::from_pem(pem("client.pem"), pem("client.key")));
    let open = start(false);
    assert_eq!(version(&open, Some(trusting())).unwrap(), "1.4.1");
    assert_eq!(version(&open, Some(known())).unwrap(), "1.4.1");
    assert!(version(&open, None).is_err());
    open.stop();
    let closed = start(true);
    assert_eq!(version(&closed, Some(known())).unwrap(), "1.4.1");
    assert!(version(&closed, Some(trusting())).is_err());
    closed.stop();
}

#[test]
fn missing_files_are_named() {
    let switch = Switch::new(SwitchConfig::default(), None).unwrap();
    let tls = Tls { cert: file("nobody.pem"), key: file("server.key"), ca_cert: None, client_auth: false };
    let options = GrpcOptions { device_id: DEVICE, tls: Some(tls), ..GrpcOptions::default() };
    let error = GrpcServer::start("127.0.0.1:0".parse().unwrap(), switch, options).unwrap_err();
    assert!(matches!(&error, GrpcError::File { path, .. } if path.ends_with("nobody.pem")), "{error}");
}
