//! Cloudflare: what its own client makes of the fake. What floe's client makes of it is a
//! unit test of `floe-providers`.

use floe_providers::fake::cloudflare::{FakeCloudflare, Script};
use floe_testbed::python::Tool;

use crate::sdk;

const SDK: Tool = Tool {
    name: "cloudflare",
    version: "5.9.0",
    requirements: include_str!("cloudflare/requirements.txt"),
    builds: false,
};

#[tokio::test]
#[ignore = "installs cloudflare from PyPI"]
async fn the_vendors_client_understands_the_fake() {
    let token = "token-of-the-test";
    let zone = "023e105f4ecef8ad9ca31a8372d0c353";
    let fake = FakeCloudflare::start(token).await.unwrap();
    fake.script(Script::Zone {
        id: zone.to_owned(),
        name: "example.com".to_owned(),
    });
    let script = include_str!("cloudflare/drive.py");
    let url = format!("{}/client/v4", fake.server().url());
    let arguments = vec![url, token.to_owned(), zone.to_owned()];
    sdk::drive(SDK, script, arguments).await;
    let left = fake.look(|state| state.zones[zone].records.len());
    assert_eq!(left, 0, "it has cleaned up");
}
