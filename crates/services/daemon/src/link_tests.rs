//! The guard against an interface that is made anew while engines take their time.

use super::*;
use crate::background;
use barewire_netns::{LinkConfig, Namespace, VethPair, is_root_capable};
use barewire_testing::{Needs, have};
use std::sync::mpsc;

struct Bed {
    near: Namespace,
    far: Namespace,
    guard: LinkGuard,
    orders: Receiver<(usize, LinkOrder)>,
    reports: Sender<LinkReport>,
}

impl Bed {
    fn new() -> Option<Bed> {
        have(Needs::Root, is_root_capable())?;
        let (near, far) = (Namespace::anonymous().unwrap(), Namespace::anonymous().unwrap());
        make(&near, &far);
        let mut watch = near.enter(|| LinkWatch::new("eth0")).unwrap().unwrap();
        let seen = near.enter(|| watch.look()).unwrap().expect("it is there");
        let ((to_engine, orders), (reports, heard)) = (mpsc::channel(), mpsc::channel());
        let line =
            LinkLine { orders: to_engine, leg: 0, pending: Arc::default(), waker: Waker::new().unwrap() };
        let ground = Ground {
            name: "eth0".to_owned(),
            mtu: 1500,
            told_mtu: Arc::default(),
            fixed_mac: false,
            rdma: false,
        };
        let (background, _threads) = background::start(std::io::sink()).unwrap();
        let guard = LinkGuard::new(watch, Some(seen), ground, vec![line], heard, Arc::default(), background);
        Some(Bed { near, far, guard, orders, reports })
    }

    fn remake(&self) {
        self.near.delete_link("eth0").unwrap();
        make(&self.near, &self.far);
    }

    /// The indexes of interfaces that the engine is to open its port on, as of looks over half a second.
    fn reopens(&mut self) -> Vec<u32> {
        for _ in 0..50 {
            let guard = &mut self.guard;
            self.near.enter(|| guard.look(now()).unwrap()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let index = |order| match order {
            (0, LinkOrder::Reopen(index)) => Some(index),
            _ => None,
        };
        self.orders.try_iter().filter_map(index).collect()
    }

    fn report(&self, index: u32, opened: Result<(), OpenError>) {
        self.reports.send(LinkReport { engine: 0, index, opened }).unwrap();
    }
}

fn make(near: &Namespace, far: &Namespace) {
    VethPair::create(near, "eth0", far, "eth0", &LinkConfig::default()).unwrap();
    far.set_up("eth0").unwrap();
    near.set_up("eth0").unwrap();
}

fn busy() -> OpenError {
    OpenError::Io { uri: "xdp:eth0".into(), call: "bind", source: std::io::ErrorKind::ResourceBusy.into() }
}

#[test]
fn an_engine_is_asked_once_until_it_answers() {
    let Some(mut bed) = Bed::new() else { return };
    assert!(bed.reopens().is_empty());
    bed.remake();
    let asked = bed.reopens();
    assert_eq!(asked.len(), 1, "{asked:?}: an engine without a core was asked again");
    bed.report(asked[0], Err(busy()));
    assert_eq!(bed.reopens(), asked, "after a failure it is tried again");
    bed.report(asked[0], Ok(()));
    assert!(bed.reopens().is_empty());
}

#[test]
fn a_port_on_an_interface_that_is_gone_again_is_none() {
    let Some(mut bed) = Bed::new() else { return };
    bed.remake();
    let first = bed.reopens();
    bed.remake();
    assert!(bed.reopens().is_empty(), "it has not answered");
    bed.report(first[0], Ok(()));
    let second = bed.reopens();
    assert!(second.len() == 1 && second != first, "{first:?} {second:?}");
    bed.report(second[0], Ok(()));
    assert!(bed.reopens().is_empty());
}

fn set_down(namespace: &Namespace) {
    let ip = || std::process::Command::new("ip").args(["link", "set", "eth0", "down"]).status().unwrap();
    assert!(namespace.enter(ip).unwrap().success());
}

#[test]
fn a_carrier_that_is_lost_is_told_once_each_time() {
    let Some(mut bed) = Bed::new() else { return };
    let losses = |bed: &mut Bed| {
        let mut all = 0;
        for _ in 0..300 {
            let guard = &mut bed.guard;
            bed.near.enter(|| guard.look(now()).unwrap()).unwrap();
            all += bed.orders.try_iter().filter(|order| matches!(order, (0, LinkOrder::CarrierLost))).count();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        all
    };
    assert_eq!(losses(&mut bed), 0);
    for _ in 0..2 {
        set_down(&bed.far);
        assert_eq!(losses(&mut bed), 1);
        bed.far.set_up("eth0").unwrap();
        assert_eq!(losses(&mut bed), 0);
    }
    // Down is another thing.
    set_down(&bed.near);
    assert_eq!(losses(&mut bed), 0);
}
