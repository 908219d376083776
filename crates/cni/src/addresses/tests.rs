use std::{fs, path::Path};

use floe_core::{
    cni::{
        args::CniArgs,
        call::{Call, Command},
        config::NetConf,
    },
    node::nic::{Routing, plan},
};

use super::*;
use crate::{exec::tests::script, request::Places};

const IPINFOS: &str = r#"ipinfos=[{"ip":"10.0.0.5/24","vlan":2,"gateway":"10.0.0.1"}]"#;

/// An IPAM plugin that answers so to ADD, and notes every command.
fn ipam(folder: &Path, answer: &str) {
    let told = folder.join("told");
    let told = told.display();
    let text = format!(
        "echo $CNI_COMMAND >> {told}\n[ $CNI_COMMAND = ADD ] || exit 0\ncat <<.\n{answer}\n."
    );
    script(&folder.join("pool"), &text);
}

fn gather(folder: &Path, args: &str, members: &str) -> Result<Addresses, CniError> {
    let stdin =
        format!(r#"{{"cniVersion":"1.0.0","name":"net","type":"galaxy-k8s-vlan"{members}}}"#);
    let call = Call {
        command: Command::Add,
        container: "c".into(),
        netns: "/none".into(),
        ifname: "eth0".into(),
        args: CniArgs::parse(args).unwrap(),
        path: vec![folder.display().to_string()],
    };
    let places = Places {
        run: folder.into(),
        state: folder.into(),
    };
    Addresses::gather(&Request {
        call: &call,
        conf: &NetConf::parse(stdin.as_bytes()).unwrap(),
        stdin: stdin.as_bytes(),
        places: &places,
    })
}

#[test]
fn addresses_of_the_arguments_go_before_an_ipam_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let found = gather(folder.path(), IPINFOS, r#","ipam":{"type":"pool"}"#).unwrap();
    assert_eq!(found.ipam, None);
    assert_eq!(found.infos.len(), 1);
    assert_eq!(found.infos[0].vlan, 2);
}

#[test]
fn addresses_of_the_configuration_go_after_the_arguments_and_before_an_ipam_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let members = r#","ipam":{"type":"pool"},
        "args":{"cni":{"ipinfos":[{"ip":"10.0.0.6/24","vlan":3,"gateway":"10.0.0.1"}]}}"#;
    let found = gather(folder.path(), "K8S_POD_NAME=p", members).unwrap();
    assert_eq!(found.ipam, None);
    assert_eq!((found.infos.len(), found.infos[0].vlan), (1, 3));
    let found = gather(folder.path(), IPINFOS, members).unwrap();
    assert_eq!((found.infos.len(), found.infos[0].vlan), (1, 2));
    let empty = r#","ipam":{"type":"pool"},"args":{"cni":{"ipinfos":[]}}"#;
    let error = gather(folder.path(), "", empty).unwrap_err();
    assert_eq!((error.code.number(), error.reason), (7, "EmptyIpInfos"));
}

#[test]
fn without_any_source_there_is_no_address() {
    let folder = tempfile::tempdir().unwrap();
    let error = gather(folder.path(), "", "").unwrap_err();
    assert_eq!(error.reason, "NoAddress");
    assert_eq!(
        error.message,
        "neither ipInfo from cni args nor ipam type from netconf"
    );
    let error = gather(folder.path(), "ipinfos=[]", "").unwrap_err();
    assert_eq!(error.message, "empty ipInfos");
}

#[test]
fn an_ipam_plugin_says_which_addresses_and_routes() {
    let folder = tempfile::tempdir().unwrap();
    ipam(
        folder.path(),
        r#"{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.5/24","gateway":"10.0.0.1"},
        {"address":"fd00::5/64"}],"routes":[{"dst":"192.0.2.0/24"},
        {"dst":"198.51.100.0/24","gw":"10.0.0.9"}],"dns":{"nameservers":["10.0.0.2"]}}"#,
    );
    let found = gather(folder.path(), "", r#","ipam":{"type":"pool"}"#).unwrap();
    let mut nics = plan(&found.infos, "eth0", Routing::Vlan);
    found.shape(&mut nics);
    let route = |dst: &str, gateway: &str| NicRoute {
        dst: dst.parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
    };
    assert_eq!(nics.len(), 1);
    assert_eq!(
        nics[0].routes,
        [
            route("192.0.2.0/24", "10.0.0.1"),
            route("198.51.100.0/24", "10.0.0.9")
        ]
    );
    assert_eq!(found.ipam.unwrap().dns.nameservers, ["10.0.0.2"]);
    let told = fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(told, "ADD\n");
}

#[test]
fn an_answer_that_cannot_be_used_is_given_back() {
    for answer in ["nonsense", r#"{"cniVersion":"1.0.0","ips":[]}"#] {
        let folder = tempfile::tempdir().unwrap();
        ipam(folder.path(), answer);
        assert!(gather(folder.path(), "", r#","ipam":{"type":"pool"}"#).is_err());
        let told = fs::read_to_string(folder.path().join("told")).unwrap();
        assert_eq!(told, "ADD\nDEL\n", "{answer}");
    }
}
