//! Hetzner Cloud: what its own client makes of the fake. What floe's client makes of it is a
//! unit test of `floe-providers`.

use floe_providers::fake::hetzner::{FakeHetzner, Order, READ_ONLY_TOKEN, TOKEN};
use floe_testbed::python::Tool;

use crate::sdk;

const SDK: Tool = Tool {
    name: "hcloud",
    version: "2.27.0",
    requirements: include_str!("hetzner/requirements.txt"),
    builds: false,
};

#[tokio::test]
#[ignore = "installs hcloud from PyPI"]
async fn the_vendors_client_understands_the_fake() {
    let fake = FakeHetzner::start().await.unwrap();
    let server = fake.tell(Order::AddServer("one".to_owned())).unwrap();
    let tokens = [TOKEN, READ_ONLY_TOKEN].map(str::to_owned);
    let mut arguments = vec![fake.endpoint()];
    arguments.extend(tokens);
    arguments.push(server.to_string());
    sdk::drive(SDK, include_str!("hetzner/drive.py"), arguments).await;
    assert_eq!(fake.floating_ips(), 0, "it has cleaned up");
}
