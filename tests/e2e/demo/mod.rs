//! One run of `holdfast demo`, looked at from all sides.

mod image;
mod interrupted;
mod restore_md;
mod secrets;
mod show;
mod told;

pub use show::files;
