//! SR-IOV: virtual functions of a card, with address and VLAN set by the physical one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::capture::Capture;
use super::in_guest;
use super::lab::{Namespace, deliver, run, wait_for};

/// The address that the card gives to its first virtual function.
const MAC: &str = "02:f1:0e:00:00:64";

/// Tests that use the cards take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn of a test that uses the cards.
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_virtual_function_sends_in_the_vlan_that_its_card_gave_it() {
    in_guest();
    let _turn = turn();
    let [card, other] = &cards();
    let (host, pod) = (Namespace::new("sriov-host"), Namespace::new("sriov-pod"));
    let outside = Namespace::new("sriov-out");
    run(
        "ip",
        &format!("link set {} netns sriov-host name card", card.name),
    );
    run(
        "ip",
        &format!("link set {} netns sriov-out name card", other.name),
    );
    host.ip("link set card up");
    outside.ip("link set card up");

    let functions = Functions::enable(card, 2);
    assert_eq!(functions.paths().len(), 2);
    host.ip(&format!("link set card vf 0 mac {MAC} vlan 100"));
    let shown = host.ip("link show dev card");
    let shown = shown.lines().find(|line| line.contains("vf 0")).unwrap();
    assert!(shown.contains(MAC) && shown.contains("vlan 100"), "{shown}");

    // The driver reads the address that the card gave only when it binds.
    let function = functions.rebind(0);
    run(
        "ip",
        &format!("link set {function} netns sriov-pod name fn0"),
    );
    assert_eq!(pod.mac("fn0"), MAC);
    pod.ip("address add 10.100.0.1/24 dev fn0");
    pod.ip("link set fn0 up");
    outside.ip("link add link card name v100 type vlan id 100");
    outside.ip("address add 10.100.0.2/24 dev v100");
    outside.ip("link set v100 up");
    let capture = Capture::start(&outside, "card");

    let (from, to) = (pod.udp("10.100.0.1:7000"), outside.udp("10.100.0.2:7000"));
    deliver(&from, &to, "from the function");
    let frame = capture.frame("from the function");
    assert_eq!(frame.vlan, Some(100));
    assert_eq!(frame.source(), MAC);
    deliver(&to, &from, "to the function");
}

/// A physical function.
pub struct Card {
    /// The name of its link.
    pub name: String,
    /// Its folder among the PCI devices.
    pub device: PathBuf,
}

/// The virtual functions of a card; they are gone after this value.
struct Functions<'a>(&'a Card);

impl<'a> Functions<'a> {
    fn enable(card: &'a Card, count: usize) -> Self {
        fs::write(card.device.join("sriov_numvfs"), count.to_string()).unwrap();
        let functions = Self(card);
        for path in functions.paths() {
            wait_for("a virtual function's device", || device_in(&path));
        }
        functions
    }

    fn paths(&self) -> Vec<PathBuf> {
        let mut links: Vec<_> = fs::read_dir(&self.0.device)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("virtfn")
            })
            .collect();
        links.sort();
        links
            .iter()
            .map(|link| link.canonicalize().unwrap())
            .collect()
    }

    /// Takes the driver of a function away and gives it back; returns the new device's name.
    fn rebind(&self, index: usize) -> String {
        let path = &self.paths()[index];
        let address = path.file_name().unwrap().to_str().unwrap();
        let driver = Path::new("/sys/bus/pci/drivers/igbvf");
        fs::write(driver.join("unbind"), address).unwrap();
        fs::write(driver.join("bind"), address).unwrap();
        wait_for("a virtual function's device", || device_in(path))
    }
}

impl Drop for Functions<'_> {
    fn drop(&mut self) {
        // Another test would only miss a free card, and say so.
        let _ = fs::write(self.0.device.join("sriov_numvfs"), "0");
    }
}

/// The two cards of the guest. They come back from a namespace that has ended.
pub fn cards() -> [Card; 2] {
    wait_for("two SR-IOV cards", || {
        let mut cards: Vec<_> = fs::read_dir("/sys/class/net")
            .unwrap()
            .filter_map(|entry| {
                let path = entry.unwrap().path();
                let driver = path.join("device/driver").canonicalize().ok()?;
                (driver.file_name()? == "igb").then(|| Card {
                    name: path.file_name().unwrap().to_str().unwrap().to_owned(),
                    device: path.join("device").canonicalize().unwrap(),
                })
            })
            .collect();
        cards.sort_by(|a, b| a.name.cmp(&b.name));
        cards.try_into().ok()
    })
}

/// The network device of a PCI device, once its driver has made one.
fn device_in(path: &Path) -> Option<String> {
    let entry = fs::read_dir(path.join("net")).ok()?.next()?.unwrap();
    Some(entry.file_name().to_str().unwrap().to_owned())
}
