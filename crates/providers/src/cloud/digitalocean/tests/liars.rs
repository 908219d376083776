//! Clients that do not do what they say, so that the suites have something to find.

use super::*;

/// What a client could do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It says that it has assigned an address.
    Assigned,
    /// It gives back whatever it is told to.
    Released,
    /// It takes an order without an answer for one that was not heard.
    Unheard,
    /// It tries again by itself.
    Stubborn,
}

/// The client, but for its lie.
impl FloatingIps for Scene {
    fn capabilities(&self) -> Capabilities {
        self.client.capabilities()
    }

    fn list(&self) -> Reply<'_, Vec<Listed>> {
        self.client.list()
    }

    fn assign<'a>(&'a self, ip: IpAddr, server: &'a str) -> Reply<'a, Taken> {
        Box::pin(async move {
            if self.lie == Some(Lie::Assigned) {
                return Ok(Taken::Done);
            }
            let answer = self.client.assign(ip, server).await;
            if self.lie == Some(Lie::Stubborn) && answer.is_err() {
                return self.client.assign(ip, server).await;
            }
            answer.map_err(|mut refusal| {
                if self.lie == Some(Lie::Unheard) && refusal.class == Class::Unclear {
                    refusal.class = Class::Unavailable;
                }
                refusal
            })
        })
    }

    fn detach(&self, ip: IpAddr) -> Reply<'_, Taken> {
        self.client.detach(ip)
    }

    fn check<'a>(&'a self, ip: IpAddr, handle: &'a str) -> Reply<'a, Progress> {
        self.client.check(ip, handle)
    }

    fn buy<'a>(&'a self, region: &'a str, v6: bool, mark: &'a Mark) -> Reply<'a, IpAddr> {
        self.client.buy(region, v6, mark)
    }

    fn release<'a>(&'a self, ip: IpAddr, mark: &'a Mark) -> Reply<'a, ()> {
        Box::pin(async move {
            if self.lie == Some(Lie::Released) {
                let kind = if ip.is_ipv6() { Kind::V6 } else { Kind::V4 };
                return self.client.account.delete(kind, ip).await;
            }
            self.client.release(ip, mark).await
        })
    }
}

/// The suites find what they are for.
#[tokio::test]
async fn a_client_that_lies_does_not_pass() {
    for (lie, found) in [
        (Lie::Assigned, "puts an address on a server"),
        (Lie::Released, "releases only with the right mark"),
        (Lie::Released, "never releases what it did not buy"),
    ] {
        let mut scene = Scene::new(marking()).await;
        scene.lie = Some(lie);
        let report = ips::every_cloud(&scene).await;
        assert!(report.failed().contains(&found), "{lie:?}: {report}");
    }
    for lie in [Lie::Unheard, Lie::Stubborn] {
        let mut scene = Scene::new(marking()).await;
        scene.lie = Some(lie);
        let report = faults::every_cloud(&scene).await;
        let found = "assignments fail for what they met and succeed again";
        assert!(report.failed().contains(&found), "{lie:?}: {report}");
    }
}
