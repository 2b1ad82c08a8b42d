//! What must be known of the tries of one request: was an answer lost on the
//! way, and what time is it at the server?

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_s3::config::interceptors::FinalizerInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

static DATES: DateTimeParser = DateTimeParser::new();

/// Sees every try of the request that it is given to.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    object: String,
    operation: &'static str,
    tries: AtomicU32,
    lost: AtomicBool,
    date: Mutex<Option<Timestamp>>,
}

impl Watch {
    pub fn over(operation: &'static str, object: impl Into<String>) -> Self {
        Self(Arc::new(Seen { object: object.into(), operation, ..Seen::default() }))
    }

    /// May a try have been done whose answer never came?
    pub fn lost(&self) -> bool {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// The server's time in its last answer.
    pub fn server_time(&self) -> Option<Timestamp> {
        *self.0.date.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Intercept for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let seen = &*self.0;
        let attempt = seen.tries.fetch_add(1, Ordering::Relaxed) + 1;
        let status = context.response().map(|response| response.status().as_u16());
        // An error of the server may come after it has done what was asked; 501
        // says that it never does.
        if status.is_none_or(|status| status >= 500 && status != 501) {
            seen.lost.store(true, Ordering::Relaxed);
        }
        if let Some(date) = context.response().and_then(|response| response.headers().get("date")) {
            *seen.date.lock().unwrap_or_else(PoisonError::into_inner) = DATES.parse_timestamp(date).ok();
        }
        let (operation, object) = (seen.operation, seen.object.as_str());
        tracing::debug!(operation, object, attempt, status, "request to the store");
        Ok(())
    }
}
