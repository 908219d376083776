//! How a server takes its leave. Others learn only after a while that it is about to end, and
//! a client that has kept a connection may use it at any moment: whoever closes it just then
//! leaves a call without an answer.
//!
//! So a server that is asked to stop goes on for a while. It answers new clients, too, and asks
//! with each answer not to come back by the same connection.

use std::time::Duration;

use axum::{
    Router,
    http::{HeaderValue, header::CONNECTION},
    middleware,
    response::Response,
};
use floe_shell::stop::{self, Stop};
use tokio::{join, time::sleep};

/// Runs a server with the routes until some time after `stop`.
pub async fn until_after<F>(
    time: Duration,
    router: Router,
    stop: Stop,
    server: impl FnOnce(Router, Stop) -> F,
) where
    F: Future<Output = ()>,
{
    let (stopper, later) = stop::channel();
    let server = server(parting(router, stop.clone()), later);
    let mut stop = stop;
    let leave = async {
        stop.requested().await;
        sleep(time).await;
        stopper.stop();
    };
    join!(server, leave);
}

/// The routes, with answers that say good-bye from `stop` on.
fn parting(router: Router, stop: Stop) -> Router {
    let say = move |mut response: Response| {
        if stop.is_requested() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        std::future::ready(response)
    };
    router.layer(middleware::map_response(say))
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request, routing::get};
    use tokio::time::Instant;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_is_asked_to_stop_goes_on_for_a_while_and_keeps_no_connection() {
        const TIME: Duration = Duration::from_secs(3);
        let (stopper, stop) = stop::channel();
        let router = Router::new().route("/", get(async || "here"));
        let began = Instant::now();
        let server = async |router: Router, mut later: Stop| {
            let ask = async || {
                let request = Request::new(Body::empty());
                let response = router.clone().oneshot(request).await.unwrap();
                assert_eq!(response.status(), 200);
                response.headers().get(CONNECTION).cloned()
            };
            assert_eq!(ask().await, None);
            stopper.stop();
            assert_eq!(ask().await.unwrap(), "close");
            assert!(!later.is_requested());
            later.requested().await;
        };
        until_after(TIME, router, stop, server).await;
        assert_eq!(began.elapsed(), TIME);
    }
}
