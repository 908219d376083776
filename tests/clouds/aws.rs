//! AWS: the clients of EC2 and Route 53 on moto and on `MiniStack`, and boto3, which says what
//! is really there.

#[path = "aws/zones.rs"]
mod zones;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use floe_core::nodepool::cloud::{Class, Mark, Taken};
use floe_providers::aws_request::Service;
use floe_providers::aws_request::credentials::Credentials;
use floe_providers::cloud::aws::{self, ElasticIps};
use floe_providers::conformance::ips::{self, Scene};
use floe_providers::conformance::proxy::{On, Passed, Proxy};
use floe_providers::conformance::{Deed, faults};
use floe_providers::floating::FloatingIps;
use floe_providers::http::Secret;
use floe_testbed::moto::{Aws, Keys, REGION, Software};
use serde_json::{Value, json};

/// An account with servers and addresses, behind a proxy.
struct Account {
    software: Software,
    aws: Aws,
    proxy: Proxy,
    client: ElasticIps,
    addresses: Vec<IpAddr>,
    servers: Vec<String>,
}

impl Account {
    async fn new(software: Software) -> Self {
        let aws = Aws::start(software).unwrap();
        // MiniStack believes whom it is told.
        if software == Software::Moto {
            aws.check_everybody().unwrap();
        }
        let proxy = Proxy::telling_apart(aws.address(), writes).await.unwrap();
        let client = client(&proxy, &aws.keys());
        let mut account = Self {
            software,
            aws,
            proxy,
            client,
            addresses: Vec::new(),
            servers: Vec::new(),
        };
        account.servers = ["a", "b", "c"].map(|zone| account.run(zone)).to_vec();
        account.addresses = (0..3).map(|_| account.allocate()).collect();
        account
    }

    fn ec2(&self, call: &str, arguments: &Value) -> Result<Value, String> {
        let answer = self.aws.call("ec2", call, arguments);
        answer.map_err(|error| format!("{error:#}"))
    }

    /// A new instance in a zone of the region, named as its node would.
    fn run(&self, zone: &str) -> String {
        let zone = format!("{REGION}{zone}");
        let wanted = json!({
            "ImageId": self.image(), "MinCount": 1, "MaxCount": 1,
            "Placement": { "AvailabilityZone": zone },
        });
        let made = self.ec2("run_instances", &wanted).unwrap();
        let instance = &made["Instances"][0];
        let zone = &instance["Placement"]["AvailabilityZone"];
        let (zone, id) = (zone.as_str().unwrap(), &instance["InstanceId"]);
        format!("aws:///{zone}/{}", id.as_str().unwrap())
    }

    fn image(&self) -> String {
        let found = self.ec2("describe_images", &json!({})).unwrap();
        let first = found["Images"][0]["ImageId"].as_str();
        first.unwrap_or("ami-12c6146b").to_owned()
    }

    fn allocate(&self) -> IpAddr {
        let made = self.ec2("allocate_address", &json!({ "Domain": "vpc" }));
        made.unwrap()["PublicIp"].as_str().unwrap().parse().unwrap()
    }

    /// What boto3 finds of an address.
    fn describe(&self, ip: IpAddr) -> Value {
        let all = self.ec2("describe_addresses", &json!({})).unwrap();
        let all = all["Addresses"].as_array().unwrap();
        let found = all.iter().find(|one| one["PublicIp"] == json!(ip));
        found.unwrap().clone()
    }
}

/// All of EC2 is asked by POST.
fn writes(passed: &Passed) -> bool {
    let asks = b"Action=Describe";
    !passed.body.starts_with(asks)
}

fn client(proxy: &Proxy, keys: &Keys) -> ElasticIps {
    ElasticIps::new(service("ec2", proxy, keys))
}

fn service(name: &'static str, proxy: &Proxy, keys: &Keys) -> Service {
    let credentials = Credentials::fixed(&keys.id, Secret::new(&keys.secret), None);
    Service::new(name, REGION, &proxy.url(), Arc::new(credentials)).unwrap()
}

/// The instance of a node.
fn id(server: &str) -> &str {
    server.rsplit('/').next().unwrap()
}

impl Scene for Account {
    fn title(&self) -> String {
        format!("AWS Elastic IP on {:?}", self.software)
    }

    fn ips(&self) -> &dyn FloatingIps {
        &self.client
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.clone()
    }

    fn unknown_address(&self) -> IpAddr {
        "192.0.2.77".parse().unwrap()
    }

    fn servers(&self) -> Vec<String> {
        self.servers.clone()
    }

    fn unknown_server(&self) -> String {
        format!("aws:///{REGION}a/i-00000000000000000")
    }

    fn region(&self) -> String {
        REGION.to_owned()
    }

    fn vanish<'a>(&'a self, server: &'a str) -> Option<Deed<'a, ()>> {
        Some(Box::pin(async move {
            let gone = json!({ "InstanceIds": [id(server)] });
            self.ec2("terminate_instances", &gone).map(drop)
        }))
    }

    fn stranger(&self) -> Option<(Arc<dyn FloatingIps>, String)> {
        if self.software != Software::Moto {
            return None;
        }
        let keys = Keys {
            secret: "wrong-secret-of-a-stranger".to_owned(),
            ..self.aws.keys()
        };
        let stranger = client(&self.proxy, &keys);
        Some((Arc::new(stranger), keys.secret))
    }
}

/// Neither emulator has quotas, and AWS does all at once.
const WITHOUT: [&str; 3] = [
    "has both families on one server",
    "buys no more than the quota",
    "says that an address is busy",
];

#[tokio::test]
#[ignore = "gets moto from PyPI: cargo xtask test --only clouds"]
async fn elastic_ips_pass_the_suites_on_moto() {
    let account = Account::new(Software::Moto).await;
    let report = ips::every_cloud(&account).await;
    println!("{}", report.conclude_without(&WITHOUT));
    let report = faults::every_cloud(&account).await;
    println!("{}", report.conclude_without(&[]));
}

#[tokio::test]
#[ignore = "gets MiniStack from PyPI: cargo xtask test --only clouds"]
async fn elastic_ips_pass_the_suites_on_ministack() {
    let account = Account::new(Software::MiniStack).await;
    let mut without = WITHOUT.to_vec();
    without.push("refuses strangers without telling the secret");
    let report = ips::every_cloud(&account).await;
    println!("{}", report.conclude_without(&without));
    let report = faults::every_cloud(&account).await;
    println!("{}", report.conclude_without(&[]));
}

#[tokio::test]
#[ignore = "gets moto from PyPI: cargo xtask test --only clouds"]
async fn elastic_ips_are_where_boto3_sees_them() {
    let account = Account::new(Software::Moto).await;
    an_instance_with_an_address_is_left_alone(&account).await;
    of_several_interfaces_the_first_is_used(&account).await;
    a_purchase_has_its_mark_in_tags(&account).await;
    an_idle_list_is_one_call(&account).await;
    rights_that_are_missing_are_said(&account).await;
}

/// AWS would push the other address off. moto would not, so what counts is that it was not
/// even asked.
async fn an_instance_with_an_address_is_left_alone(account: &Account) {
    let (first, second) = (account.addresses[0], account.addresses[1]);
    let server = &account.servers[0];
    let by_hand = json!({
        "AllocationId": account.describe(first)["AllocationId"], "InstanceId": id(server),
    });
    account.ec2("associate_address", &by_hand).unwrap();
    let before = account.proxy.count(On::Writes);
    let refusal = account.client.assign(second, server).await.unwrap_err();
    assert_eq!(refusal.class, Class::ServerTaken, "{refusal}");
    assert_eq!(account.proxy.count(On::Writes), before);
    assert_eq!(account.describe(first)["InstanceId"], json!(id(server)));
    account.client.detach(first).await.unwrap();
    assert!(account.describe(first).get("AssociationId").is_none());
}

async fn of_several_interfaces_the_first_is_used(account: &Account) {
    let server = account.run("a");
    let asked = json!({ "InstanceIds": [id(&server)] });
    let found = account.ec2("describe_instances", &asked).unwrap();
    let first = &found["Reservations"][0]["Instances"][0]["NetworkInterfaces"][0];
    let wanted = json!({ "SubnetId": first["SubnetId"] });
    let made = account.ec2("create_network_interface", &wanted).unwrap();
    let second = &made["NetworkInterface"]["NetworkInterfaceId"];
    let attached = json!({
        "NetworkInterfaceId": second, "InstanceId": id(&server), "DeviceIndex": 1,
    });
    account.ec2("attach_network_interface", &attached).unwrap();
    let ip = account.addresses[0];
    for _ in 0..2 {
        let taken = account.client.assign(ip, &server).await.unwrap();
        assert_eq!(taken, Taken::Done);
        let found = account.describe(ip)["NetworkInterfaceId"].clone();
        assert_eq!(found, first["NetworkInterfaceId"]);
    }
    let listed = account.client.list().await.unwrap();
    let listed = listed.iter().find(|listed| listed.ip == ip).unwrap();
    assert_eq!(listed.server.as_ref(), Some(&server));
    account.client.detach(ip).await.unwrap();
}

async fn a_purchase_has_its_mark_in_tags(account: &Account) {
    let mark = Mark {
        cluster: "cluster".into(),
        pool: "pool".into(),
        purchase: "1".into(),
    };
    let ip = account.client.buy(REGION, false, &mark).await.unwrap();
    let tags: BTreeMap<String, String> = account.describe(ip)["Tags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tag| {
            let text = |field: &str| tag[field].as_str().unwrap().to_owned();
            (text("Key"), text("Value"))
        })
        .collect();
    let expected = [
        ("floe.dev/cluster", "cluster"),
        ("floe.dev/pool", "pool"),
        ("floe.dev/purchase", "1"),
    ];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(tags, BTreeMap::from(expected));
    // The same purchase again buys nothing.
    let again = account.client.buy(REGION, false, &mark).await.unwrap();
    assert_eq!(again, ip);
    // It is given back also from a server.
    let server = &account.servers[1];
    account.client.assign(ip, server).await.unwrap();
    account.client.release(ip, &mark).await.unwrap();
    let all = account.ec2("describe_addresses", &json!({})).unwrap();
    assert!(!all.to_string().contains(&ip.to_string()), "{all}");
    let refusal = account.client.buy("eu-west-1", false, &mark).await;
    assert_eq!(refusal.unwrap_err().class, Class::Invalid);
}

/// Whoever knows nothing yet asks once more, for the zones of instances.
async fn an_idle_list_is_one_call(account: &Account) {
    let (ip, server) = (account.addresses[0], &account.servers[1]);
    account.client.assign(ip, server).await.unwrap();
    let fresh = client(&account.proxy, &account.aws.keys());
    for calls in [2, 1, 1] {
        let before = account.proxy.seen().len();
        let listed = fresh.list().await.unwrap();
        let listed = listed.iter().find(|listed| listed.ip == ip).unwrap();
        assert_eq!(listed.server.as_ref(), Some(server));
        assert_eq!(account.proxy.seen().len() - before, calls);
    }
    account.client.detach(ip).await.unwrap();
}

async fn rights_that_are_missing_are_said(account: &Account) {
    let may = ["ec2:DescribeAddresses", "ec2:DescribeInstances"];
    let keys = account.aws.user("reader", &may).unwrap();
    let reader = client(&account.proxy, &keys);
    reader.list().await.unwrap();
    let (ip, server) = (account.addresses[0], &account.servers[1]);
    let refusal = reader.assign(ip, server).await.unwrap_err();
    assert_eq!(refusal.class, Class::Unauthorized, "{refusal}");
    assert!(
        refusal.message.contains("ec2:AssociateAddress"),
        "{refusal}"
    );
}

/// moto's token service takes any token; its answer has the form of AWS's.
#[tokio::test]
#[ignore = "gets moto from PyPI: cargo xtask test --only clouds"]
async fn a_service_account_takes_a_role() {
    let aws = Aws::start(Software::Moto).unwrap();
    let role = json!({ "RoleName": "floe", "AssumeRolePolicyDocument": "{}" });
    let made = aws.call("iam", "create_role", &role).unwrap();
    let arn = made["Role"]["Arn"].as_str().unwrap().to_owned();
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "token-of-kubernetes").unwrap();
    let url = format!("http://{}", aws.address());
    let environment = |name: &str| match name {
        "AWS_REGION" => Some(REGION.to_owned()),
        "AWS_ENDPOINT_URL" => Some(url.clone()),
        "AWS_ROLE_ARN" => Some(arn.clone()),
        "AWS_WEB_IDENTITY_TOKEN_FILE" => Some(token.path().display().to_string()),
        _ => None,
    };
    // Moto loads a service when it is first asked for, which may take longer than the client waits.
    for (service, action) in [
        ("sts", "get_caller_identity"),
        ("ec2", "describe_addresses"),
    ] {
        aws.call(service, action, &json!({})).unwrap();
    }
    let client = aws::from_environment(&environment).unwrap().unwrap();
    assert_eq!(client.list().await.unwrap(), []);
}
