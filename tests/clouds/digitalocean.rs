//! DigitalOcean: what its own client makes of the fake. What floe's client makes of it is
//! a unit test of `floe-providers`.

use floe_providers::fake::digitalocean::{FakeDigitalOcean, Script};
use floe_testbed::python::Tool;

use crate::sdk;

const SDK: Tool = Tool {
    name: "pydo",
    version: "0.44.0",
    requirements: include_str!("digitalocean/requirements.txt"),
    builds: false,
};

#[tokio::test]
#[ignore = "installs pydo from PyPI"]
async fn the_vendors_client_understands_the_fake() {
    let token = "dop_v1_of_the_test";
    let fake = FakeDigitalOcean::start(token).await.unwrap();
    for id in [1, 2] {
        let region = "nyc3".to_owned();
        fake.script(Script::Droplet { id, region }).unwrap();
    }
    let name = "example.com".to_owned();
    fake.script(Script::Domain { name }).unwrap();
    let script = include_str!("digitalocean/drive.py");
    let arguments = vec![fake.server().url(), token.to_owned()];
    sdk::drive(SDK, script, arguments).await;
    let left = fake.look(|state| (state.addresses.len(), state.domains["example.com"].len()));
    assert_eq!(left, (0, 0), "it has cleaned up");
}
