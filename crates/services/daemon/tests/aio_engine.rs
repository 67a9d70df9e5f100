//! The client with futures, with an engine in threads of its own instead of a daemon.

mod common;
#[path = "common/futures.rs"]
mod futures;

use barewire_client::aio::{AsyncClient, Caller, RecvError, Request, ServeOptions, serve};
use barewire_client::security::PrivateKey;
use barewire_client::{AttachError, ClientConfig, CloseReason, ConnectOptions, Geometry};
use common::{Folder, PATIENCE, eventually};
use futures::{LONGER, PORT, at, both, count_in_order, numbered, run};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// A cable that no other test has.
fn cable() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("mem:aio-engine-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn place(cable: &str, host: u8) -> PathBuf {
    format!("embedded:10.0.0.{host}/24@{cable}").into()
}

async fn attach(place: &Path, geometry: Option<Geometry>) -> Result<AsyncClient, AttachError> {
    let config = ClientConfig { socket: place.to_owned(), geometry, ..ClientConfig::new("own") };
    AsyncClient::attach_with(&config).await
}

async fn engines(a: Option<Geometry>, b: Option<Geometry>) -> (AsyncClient, AsyncClient) {
    let cable = cable();
    (attach(&place(&cable, 1), a).await.unwrap(), attach(&place(&cable, 2), b).await.unwrap())
}

macro_rules! cases {
    ($($name:ident $geometry:expr;)*) => {$(
        #[test]
        fn $name() {
            run(async {
                let (a, b) = engines($geometry, None).await;
                futures::$name(a, b).await;
            });
        }
    )*};
}

futures::of_any_two_clients!(cases);

#[test]
fn a_slow_reader_holds_its_sender_back() {
    run(async {
        let (a, b) = engines(Some(futures::small()), Some(futures::small())).await;
        let (there, here) = both(&a, &b).await;
        const COUNT: u32 = 400;
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        let sender = tokio::spawn(async move {
            for n in 0..COUNT {
                there.send(&numbered(n, 16 << 10)).await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        // 6.5 MB do not fit into the two memories together, however long they are given.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(sent.load(Ordering::Relaxed) < COUNT as usize);
        assert_eq!(count_in_order(here).await, COUNT);
        sender.await.unwrap();
    });
}

#[test]
fn who_drops_the_client_stops_its_engine_and_the_peer_is_told() {
    run(async {
        let cable = cable();
        let a = attach(&place(&cable, 1), None).await.unwrap();
        let b = attach(&place(&cable, 2), None).await.unwrap();
        let (there, here) = both(&a, &b).await;
        let message = {
            here.send(b"kept").await.unwrap();
            there.recv().await.unwrap().unwrap()
        };
        drop((a, there));
        // A message keeps its flow, and so the engine.
        assert!(tokio::time::timeout(Duration::from_millis(100), here.recv()).await.is_err());
        assert_eq!(message.to_vec(), b"kept");
        drop(message);
        let ended = here.recv().await;
        assert!(matches!(ended, Ok(None) | Err(RecvError::Ended(CloseReason::Reset))), "{ended:?}");
        // The cable is free soon after its other end is, for engines with flows of their own.
        drop((b, here));
        let a = loop {
            match attach(&place(&cable, 1), None).await {
                Ok(a) => break a,
                Err(AttachError::Engine { .. }) => tokio::time::sleep(Duration::from_millis(1)).await,
                Err(e) => panic!("{e}"),
            }
        };
        let b = attach(&place(&cable, 2), None).await.unwrap();
        let (there, here) = both(&a, &b).await;
        there.send(b"again").await.unwrap();
        assert_eq!(here.recv().await.unwrap().unwrap().to_vec(), b"again");
    });
}

#[test]
fn with_its_runtime_the_engine_stops_too() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let cable = cable();
    let b = second.block_on(attach(&place(&cable, 2), None)).unwrap();
    let (there, here) = first.block_on(async {
        let a = attach(&place(&cable, 1), None).await.unwrap();
        let listener = b.listen(PORT).await.unwrap();
        let options = ConnectOptions::default();
        let (there, here) = tokio::join!(a.connect(at(2), &options), listener.accept());
        (there.unwrap(), here.unwrap().unwrap())
    });
    let waiting = second.spawn(async move { there.recv().await.map(|_| ()) });
    std::thread::sleep(Duration::from_millis(50));
    drop(first);
    let told =
        second.block_on(async { tokio::time::timeout(PATIENCE, waiting).await.expect("it hangs").unwrap() });
    assert_eq!(told, Err(RecvError::DaemonGone));
    let told =
        second.block_on(async { tokio::time::timeout(PATIENCE, here.recv()).await.expect("it hangs") });
    assert!(matches!(told, Ok(None) | Err(RecvError::Ended(CloseReason::Reset))), "{told:?}");
}

#[test]
fn nothing_is_left_of_engines_that_were_dropped() {
    // An engine's folder goes after its threads.
    let folders = || {
        let mine = format!("barewire-embedded-{}-", std::process::id());
        let all = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        all.map(|e| e.file_name().into_string().unwrap_or_default())
            .filter(|name| name.starts_with(&mine))
            .collect::<Vec<_>>()
    };
    let cable = cable();
    let mut ours = Vec::new();
    run(async {
        let before = folders();
        let a = attach(&place(&cable, 1), None).await.unwrap();
        ours.extend(folders().into_iter().filter(|f| !before.contains(f)));
        assert!(!ours.is_empty());
        let listener = a.listen(PORT).await.unwrap();
        // Given up while it is asked for.
        let options = ConnectOptions::default();
        let _ = tokio::time::timeout(Duration::from_micros(10), a.connect(at(2), &options)).await;
        drop((listener, a));
    });
    eventually("the folders of the engines are gone", || ours.iter().all(|f| !folders().contains(f)));
}

#[test]
fn what_cannot_be_is_told() {
    run(async {
        for wrong in ["embedded:", "embedded:10.0.0.1@mem:x", "embedded:10.0.0.1/24@", "embedded:no.toml"] {
            let told = attach(Path::new(wrong), None).await;
            assert!(matches!(told, Err(AttachError::Place { .. })), "{wrong}: {:?}", told.err());
        }
        for fails in ["embedded:10.0.0.1/24@packet:nosuch0", "embedded:10.0.0.1/24@nosuch:x"] {
            let told = attach(Path::new(fails), None).await;
            assert!(matches!(told, Err(AttachError::Engine { .. })), "{fails}: {:?}", told.err());
        }
        // There is no second engine that could take the first one's place.
        let config = ClientConfig { socket: place(&cable(), 1), reattach: true, ..ClientConfig::new("own") };
        let client = AsyncClient::attach_with(&config).await.unwrap();
        assert!(!client.is_detached());
    });
}

/// A barewire.toml of a host that trusts the other one, with its key.
fn secured(dir: &Folder, cable: &str, host: u8) -> PathBuf {
    barewire_engine::keyfile::create(&dir.path().join(format!("{host}.key")), [host; 32]).unwrap();
    let peer = PrivateKey::from_bytes([3 - host; 32]).public();
    let file = dir.path().join(format!("{host}.toml"));
    let text = format!(
        "[interface]\nport = \"{cable}\"\nipv4 = [\"10.0.0.{host}/24\"]\n\n[security]\nkey = \"{host}.key\"\n\n\
         [[security.peer]]\nname = \"other\"\nkey = \"{peer}\"\n"
    );
    std::fs::write(&file, text).unwrap();
    format!("embedded:{}", file.display()).into()
}

#[test]
fn engines_encrypt_as_their_files_say_and_calls_run_over_them() {
    run(async {
        let (dir, cable) = (Folder::new("daemon"), cable());
        let (a, b) = (secured(&dir, &cable, 1), secured(&dir, &cable, 2));
        let (a, b) = (attach(&a, None).await.unwrap(), attach(&b, None).await.unwrap());
        let listener = b.listen(PORT).await.unwrap();
        let server = tokio::spawn(serve(listener, ServeOptions::default(), |request: Request| async move {
            Ok(request.body().to_vec())
        }));
        let caller = Caller::new(a.connect(at(2), &ConnectOptions::default()).await.unwrap());
        for n in 0..100 {
            let body = numbered(n, 2_000);
            assert_eq!(caller.call(&body, Some(LONGER)).await.unwrap().to_vec(), body);
        }
        drop(caller);
        b.close(LONGER).await.unwrap();
        server.await.unwrap().unwrap();
    });
}
