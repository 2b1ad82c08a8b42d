//! The HTML face: one file that needs nothing beside it, with no script in it.

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value, context};

use super::document::Document;
use super::model::Report;
use super::svg;
use crate::base::codes;
use crate::base::failure::Failure;

/// The name ends in `.html`, so that the engine escapes every value by itself.
const NAME: &str = "report.html";

/// Renders the page; a template that names what is not there is a failure, never a gap.
pub fn render(report: &Report) -> Result<String, Failure> {
    let broken = |error| Failure::because(&codes::REPORT_TEMPLATE, NAME, &error);
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template(NAME, include_str!("templates/report.html")).map_err(broken)?;
    let document = Document::of(report);
    // The only value that is not escaped: every text in it was escaped where it was drawn.
    let timeline = Value::from_safe_string(svg::timeline(&document.bars));
    let template = environment.get_template(NAME).map_err(broken)?;
    template.render(context! { doc => Value::from(Serde(&document)), timeline }).map_err(broken)
}
