use std::{
    io::Write as _,
    time::{Duration, UNIX_EPOCH},
};

use http::header::AUTHORIZATION;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::http::Secret;

const ID: &str = "AKIDEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn service(name: &'static str, endpoint: &str) -> Service {
    let credentials = Credentials::fixed(ID, Secret::new(SECRET), None);
    Service::new(name, "us-east-1", endpoint, Arc::new(credentials)).unwrap()
}

fn keys(token: Option<&str>) -> Keys {
    Keys {
        id: ID.into(),
        secret: Secret::new(SECRET),
        token: token.map(Secret::new),
    }
}

/// The example with which AWS's manual explains signatures.
#[test]
fn the_signature_is_that_of_the_manual() {
    let service = service("iam", "https://iam.amazonaws.com");
    let path = "/?Action=ListUsers&Version=2010-05-08";
    let mut request = Request::new(Method::GET, path);
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8");
    request.headers.insert(CONTENT_TYPE, kind);
    let then = UNIX_EPOCH + Duration::from_mins(24_015_636);
    let signed = service.signed(request, &keys(None), then).unwrap();
    let authorization = signed.headers[AUTHORIZATION].to_str().unwrap();
    assert_eq!(
        authorization,
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date, \
         Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    );
}

/// What botocore, AWS's own code for Python, makes of the same requests.
#[test]
fn the_signature_is_that_of_botocore() {
    let service = service("route53", "https://route53.amazonaws.com");
    let path = "/2013-04-01/hostedzone/Z1D/rrset";
    let then = UNIX_EPOCH + Duration::from_hours(498_566);
    let signature = |request, token| {
        let signed = service.signed(request, &keys(token), then).unwrap();
        let authorization = signed.headers[AUTHORIZATION].to_str().unwrap();
        authorization.rsplit('=').next().unwrap().to_owned()
    };
    let question = query::with_query(path, &[("name", "*.example.com"), ("maxitems", "300")]);
    assert_eq!(
        signature(Request::new(Method::GET, question), None),
        "75a411b96deb9faee6296092a6a508978d75502d67ac1f93ca04a36201a3fedf"
    );
    let mut change = Request::new(Method::POST, format!("{path}/"));
    let kind = HeaderValue::from_static("application/xml");
    change.headers.insert(CONTENT_TYPE, kind);
    change.body = b"<a>b</a>".to_vec();
    assert_eq!(
        signature(change, Some("TOKEN")),
        "7bd22537321e5a42cff7dacdde3f0dfc03014f1022ccc8ba839b72a609d8e8b3"
    );
}

#[test]
fn what_is_sent_shows_no_secret_to_who_prints_it() {
    let service = service("ec2", "http://127.0.0.1:1");
    let signed = service
        .signed(form(&[]), &keys(Some("TOKEN-OF-SESSION")), UNIX_EPOCH)
        .unwrap();
    assert_eq!(signed.headers["x-amz-security-token"], "TOKEN-OF-SESSION");
    let keys = keys(Some("TOKEN-OF-SESSION"));
    let printed = format!("{signed:?} {service:?} {keys:?}");
    for secret in [SECRET, "TOKEN-OF-SESSION", "Signature="] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn a_form_is_in_the_body() {
    let form = form(&[("Action", "Do It"), ("Name", "a&b")]);
    assert_eq!(form.method, Method::POST);
    assert_eq!(form.path, "/");
    assert_eq!(form.body, b"Action=Do+It&Name=a%26b");
}

/// What the environment has, for tests.
fn environment<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    |name| {
        let pair = pairs.iter().find(|(key, _)| *key == name)?;
        Some(pair.1.to_owned())
    }
}

#[test]
fn places_are_those_of_the_environment_or_of_aws() {
    let keys = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
    let with = |more: &[(&str, &str)]| {
        let all = [&keys, more].concat();
        let environment = environment(&all);
        (ec2(&environment), route53(&environment))
    };
    let base = |service: Result<Option<Service>, String>| {
        let service = service.unwrap().unwrap();
        (service.http.base().to_owned(), service.region)
    };
    let (ec2, route53) = with(&[("AWS_REGION", "eu-west-1")]);
    let expected = ("https://ec2.eu-west-1.amazonaws.com", "eu-west-1");
    assert_eq!(base(ec2), (expected.0.into(), expected.1.into()));
    let expected = ("https://route53.amazonaws.com", "us-east-1");
    assert_eq!(base(route53), (expected.0.into(), expected.1.into()));

    let (ec2, route53) = with(&[("AWS_DEFAULT_REGION", "cn-north-1")]);
    let expected = ("https://ec2.cn-north-1.amazonaws.com.cn", "cn-north-1");
    assert_eq!(base(ec2), (expected.0.into(), expected.1.into()));
    let expected = ("https://route53.amazonaws.com.cn", "cn-northwest-1");
    assert_eq!(base(route53), (expected.0.into(), expected.1.into()));

    let (ec2, route53) = with(&[
        ("AWS_REGION", "x"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1/"),
        ("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:2"),
    ]);
    assert_eq!(base(ec2).0, "http://127.0.0.1:2");
    assert_eq!(base(route53).0, "http://127.0.0.1:1");

    let (ec2, route53) = with(&[]);
    assert!(ec2.unwrap_err().starts_with("AWS_REGION: "));
    assert!(route53.unwrap().is_some());
}

#[test]
fn without_credentials_there_is_nothing_and_with_half_of_them_an_error() {
    assert!(ec2(&environment(&[])).unwrap().is_none());
    assert!(ec2(&environment(&[("AWS_REGION", "x")])).unwrap().is_none());
    for (given, missing) in [
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("AWS_SECRET_ACCESS_KEY_FILE", "AWS_ACCESS_KEY_ID"),
    ] {
        let error = ec2(&environment(&[(given, "value")])).unwrap_err();
        assert!(error.starts_with(&format!("{missing}: ")), "{error}");
        assert!(!error.contains("value"), "{error}");
    }
}

#[tokio::test]
async fn keys_in_files_are_read_each_time() {
    let path = |name: &str| {
        let name = format!("floe-aws-{}-{name}", std::process::id());
        std::env::temp_dir().join(name).display().to_string()
    };
    let (id, secret) = (path("id"), path("secret"));
    let write = |path: &str, text: &str| {
        let mut file = std::fs::File::create(path).unwrap();
        writeln!(file, "{text}").unwrap();
    };
    write(&id, "first");
    write(&secret, "a");
    let pairs = [
        ("AWS_ACCESS_KEY_ID_FILE", id.as_str()),
        ("AWS_SECRET_ACCESS_KEY_FILE", secret.as_str()),
    ];
    let credentials = Credentials::from_environment(&environment(&pairs));
    let credentials = credentials.unwrap().unwrap();
    assert_eq!(credentials.keys().await.unwrap().id, "first");
    write(&id, "second");
    assert_eq!(credentials.keys().await.unwrap().id, "second");
    write(&id, "");
    let refusal = credentials.keys().await.unwrap_err();
    assert_eq!(refusal.class, Class::Unauthorized);
    std::fs::remove_file(&id).unwrap();
    let refusal = credentials.keys().await.unwrap_err();
    assert_eq!(refusal.class, Class::Unauthorized);
    assert!(refusal.message.starts_with("AWS_ACCESS_KEY_ID_FILE: "));
    std::fs::remove_file(&secret).unwrap();
}

/// Answers one request with this.
async fn answering(status: u16, body: &str) -> String {
    let body = body.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.windows(4).any(|four| four == b"\r\n\r\n") {
            stream.read_buf(&mut seen).await.unwrap();
        }
        let answer = format!(
            "HTTP/1.1 {status} S\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    format!("http://{address}")
}

async fn refused(changes: bool, status: u16, body: &str) -> Coded {
    let service = service("ec2", &answering(status, body).await);
    let method = if changes { Method::POST } else { Method::GET };
    let answer = service.ask::<Said>(Request::new(method, "/")).await;
    answer.unwrap_err()
}

#[derive(Debug, serde::Deserialize)]
struct Said {
    #[serde(rename = "it")]
    _it: String,
}

#[tokio::test]
async fn codes_tell_more_than_the_status() {
    let ec2 = "<Response><Errors><Error><Code>RequestLimitExceeded</Code>\
               <Message>Request limit exceeded.</Message></Error></Errors></Response>";
    let coded = refused(true, 503, ec2).await;
    assert_eq!(coded.code, "RequestLimitExceeded");
    assert_eq!(coded.refusal.class, Class::RateLimited);
    assert_eq!(
        coded.refusal.message,
        "RequestLimitExceeded: Request limit exceeded. (status 503)"
    );

    let others = "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>Throttling</Code>\
                  <Message>Rate exceeded</Message></Error><RequestId>1</RequestId></ErrorResponse>";
    assert_eq!(
        refused(true, 400, others).await.refusal.class,
        Class::RateLimited
    );

    let batch = "<InvalidChangeBatch><Messages><Message>Tried to create resource record set \
                 [name='a.', type='TXT'] but it already exists</Message></Messages>\
                 </InvalidChangeBatch>";
    let coded = refused(true, 400, batch).await;
    assert_eq!(coded.code, "InvalidChangeBatch");
    assert_eq!(coded.refusal.class, Class::Busy);
    let batch = "<InvalidChangeBatch><Messages><Message>RRSet of type A is not permitted\
                 </Message></Messages></InvalidChangeBatch>";
    assert_eq!(
        refused(true, 400, batch).await.refusal.class,
        Class::Invalid
    );
}

/// As AWS documents its codes; nearly all of them come with status 400.
#[tokio::test]
async fn each_code_has_its_class() {
    for (code, class) in [
        ("AddressLimitExceeded", Class::Quota),
        ("InsufficientAddressCapacity", Class::Quota),
        ("InvalidAddress.NotFound", Class::AddressUnknown),
        ("InvalidAllocationID.NotFound", Class::AddressUnknown),
        ("InvalidInstanceID.NotFound", Class::ServerUnknown),
        ("InvalidNetworkInterfaceID.NotFound", Class::ServerUnknown),
        ("InvalidInstanceID", Class::Busy),
        ("InvalidIPAddress.InUse", Class::Busy),
        ("PriorRequestNotComplete", Class::Busy),
        ("Resource.AlreadyAssociated", Class::HeldElsewhere),
        ("Throttling", Class::RateLimited),
        ("RequestLimitExceeded", Class::RateLimited),
        ("AuthFailure", Class::Unauthorized),
        ("UnauthorizedOperation", Class::Unauthorized),
        ("ExpiredToken", Class::Unauthorized),
        ("NoSuchHostedZone", Class::ZoneUnknown),
        ("InvalidParameterValue", Class::Invalid),
    ] {
        let body = format!("<R><Errors><Error><Code>{code}</Code></Error></Errors></R>");
        let coded = refused(true, 400, &body).await;
        assert_eq!(coded.refusal.class, class, "{code}");
        assert_eq!(coded.code, code);
        assert_eq!(coded.refusal.message, format!("{code} (status 400)"));
    }
}

#[tokio::test]
async fn a_failure_without_a_code_is_judged_by_its_status() {
    for (changes, status, class) in [
        (false, 500, Class::Unavailable),
        (true, 500, Class::Unclear),
        (true, 503, Class::Unavailable),
        (true, 400, Class::Invalid),
        (true, 429, Class::RateLimited),
        (true, 403, Class::Unauthorized),
        // A good status with an answer that nobody can read.
        (true, 200, Class::Unclear),
        (false, 200, Class::Unavailable),
    ] {
        let coded = refused(changes, status, "{\"half\": ").await;
        assert_eq!(coded.refusal.class, class, "{status}: {coded:?}");
        assert_eq!(coded.code, "");
    }
}

#[tokio::test]
async fn a_wrong_signature_does_not_tell_what_was_signed() {
    let body = "<Response><Errors><Error><Code>SignatureDoesNotMatch</Code><Message>The \
                Canonical String should have been 'x-amz-security-token:TOKEN'</Message></Error>\
                </Errors></Response>";
    let coded = refused(false, 403, body).await;
    assert_eq!(coded.refusal.class, Class::Unauthorized);
    assert!(!coded.refusal.message.contains("TOKEN"), "{coded:?}");
}

#[tokio::test]
async fn keys_of_a_role_come_from_the_token_service() {
    const BODY: &str = "<AssumeRoleWithWebIdentityResponse xmlns=\"x\">\
        <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA1</AccessKeyId>\
        <SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
        <Expiration>2126-11-16T14:00:00Z</Expiration></Credentials>\
        </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
    let token = std::env::temp_dir().join(format!("floe-aws-{}-token", std::process::id()));
    std::fs::write(&token, "token\n").unwrap();
    let file = token.display().to_string();
    let with = |url: &str| {
        let pairs = [
            ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/floe"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.as_str()),
            ("AWS_ENDPOINT_URL_STS", url),
        ];
        let credentials = Credentials::from_environment(&environment(&pairs));
        credentials.unwrap().unwrap()
    };
    let credentials = with(&answering(200, BODY).await);
    let keys = credentials.keys().await.unwrap();
    assert_eq!(keys.id, "ASIA1");
    assert_eq!(keys.token, Some(Secret::new("t")));
    // The service answers once only, so these are the same.
    assert_eq!(credentials.keys().await.unwrap(), keys);

    let denied = "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>No</Message>\
                  </Error></ErrorResponse>";
    let refusal = with(&answering(400, denied).await)
        .keys()
        .await
        .unwrap_err();
    assert_eq!(refusal.class, Class::Unauthorized);
    // That nothing came of it changes nothing at the cloud.
    let refusal = with(&answering(500, "").await).keys().await.unwrap_err();
    assert_eq!(refusal.class, Class::Unavailable);
    std::fs::remove_file(&token).unwrap();
}
