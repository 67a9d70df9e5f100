//! The client with futures, against two real daemons in this process.

mod common;
#[path = "common/futures.rs"]
mod futures;

use barewire_client::aio::{AsyncClient, ConnectError, RecvError};
use barewire_client::{ClientConfig, ConnectOptions, Geometry};
use barewire_daemon::Daemon;
use common::pair;
use futures::{PORT, at, both, both_at, number_of, numbered, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

macro_rules! cases {
    ($($name:ident $geometry:expr;)*) => {$(
        #[test]
        fn $name() {
            run(async {
                let pair = pair();
                let a = attach_with(&pair.a, "a", $geometry).await;
                futures::$name(a, attach(&pair.b, "b").await).await;
            });
        }
    )*};
}

futures::of_any_two_clients!(cases);

async fn attach(daemon: &Daemon, name: &str) -> AsyncClient {
    attach_with(daemon, name, None).await
}

async fn attach_with(daemon: &Daemon, name: &str, geometry: Option<Geometry>) -> AsyncClient {
    let mut config = ClientConfig::new(name);
    config.socket = daemon.socket().to_owned();
    config.geometry = geometry;
    AsyncClient::attach_with(&config).await.unwrap()
}

#[test]
fn a_slow_reader_holds_its_sender_back_and_nobody_else() {
    run(async {
        let pair = pair();
        let geometry = futures::small();
        let a = attach_with(&pair.a, "a", Some(geometry)).await;
        let b = attach_with(&pair.b, "b", Some(geometry)).await;
        let (slow, slow_end) = both(&a, &b).await;
        // Another application: flows of one share its memory, and who takes nothing keeps it.
        let other = attach_with(&pair.b, "other", Some(geometry)).await;
        let (quick, quick_end) = both(&a, &other).await;
        const COUNT: u32 = 400;
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        let sender = tokio::spawn(async move {
            for n in 0..COUNT {
                slow.send(&numbered(n, 16 << 10)).await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
            }
            slow
        });
        for n in 0..COUNT {
            quick.send(&numbered(n, 1000)).await.unwrap();
            assert_eq!(number_of(&quick_end.recv().await.unwrap().unwrap().to_vec()), n);
        }
        // 6.5 MB do not fit into the two memories together.
        assert!(sent.load(Ordering::Relaxed) < COUNT as usize);
        for n in 0..COUNT {
            assert_eq!(number_of(&slow_end.recv().await.unwrap().unwrap().to_vec()), n);
        }
        drop(sender.await.unwrap());
        assert!(slow_end.recv().await.unwrap().is_none());
    });
}

#[test]
fn a_daemon_that_goes_is_told_to_all_who_wait() {
    run(async {
        let pair = pair();
        let (a, b) = (attach(&pair.a, "a").await, attach(&pair.b, "b").await);
        let (there, here) = both(&a, &b).await;
        let listener = a.listen(PORT + 1).await.unwrap();
        let receiving = tokio::spawn(async move { there.recv().await.map(|_| ()) });
        let accepting = tokio::spawn(async move { listener.accept().await.map(|_| ()) });
        here.send_acknowledged(b"they wait").await.unwrap();
        assert!(receiving.await.unwrap().is_ok());
        let (there, _here) = both_at(&b, &a, 1).await;
        let receiving = tokio::spawn(async move { there.recv().await.map(|_| ()) });
        drop(pair);
        let ended = receiving.await.unwrap();
        assert!(matches!(ended, Err(RecvError::DaemonGone | RecvError::Ended(_)) | Ok(())), "{ended:?}");
        assert_eq!(accepting.await.unwrap(), Err(RecvError::DaemonGone));
        let failed = a.connect(at(2), &ConnectOptions::default()).await;
        assert!(matches!(failed, Err(ConnectError::DaemonGone)), "{failed:?}");
    });
}
