//! `/healthz` and `/metrics`, over plain HTTP.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::health::{Pulse, judge};
use crate::base::clock::Clock;
use crate::telemetry::metrics::{self, Metrics};

/// What is served.
#[derive(Debug, Clone)]
pub struct Served {
    pub metrics: Arc<Metrics>,
    pub pulse: Arc<Pulse>,
    pub clock: Arc<dyn Clock>,
}

/// Both pages, and a list of them where somebody asks for nothing.
pub fn router(served: Served) -> Router {
    let (health, shown) = (served.clone(), served);
    Router::new()
        .route("/", get(|| async { "holdfast: /healthz, /metrics\n" }))
        .route("/healthz", get(move || std::future::ready(healthz(&health))))
        .route("/metrics", get(move || std::future::ready(metrics(&shown))))
}

fn healthz(served: &Served) -> Response {
    let health = judge(&served.pulse.last(), served.clock.now(), served.clock.uptime());
    let status = if health.is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, health.text).into_response()
}

fn metrics(served: &Served) -> Response {
    match served.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
