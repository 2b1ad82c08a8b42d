//! The systemd units: what systemd itself says of them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The units as an installation has them, but with the program where it lies now:
/// systemd checks that it is there.
fn install(with_rehearsals: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd");
    let unit = fs::read_to_string(source.join("holdfast.service")).unwrap();
    assert_eq!(unit.matches("/usr/local/bin/holdfast").count(), 1);
    let unit = unit.replace("/usr/local/bin/holdfast", env!("CARGO_BIN_EXE_holdfast"));
    fs::write(folder.path().join("holdfast.service"), unit).unwrap();
    if with_rehearsals {
        let drop_ins = folder.path().join("holdfast.service.d");
        fs::create_dir(&drop_ins).unwrap();
        fs::copy(source.join("holdfast.service.d/rehearsal.conf"), drop_ins.join("rehearsal.conf")).unwrap();
    }
    folder
}

#[allow(clippy::disallowed_methods)] // what an administrator runs
fn analyze(arguments: &[&str], folder: &tempfile::TempDir) -> Output {
    let unit = folder.path().join("holdfast.service");
    let mut command = Command::new("systemd-analyze");
    // Nothing of this machine's own units and settings.
    command.args(arguments).arg(unit).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C.UTF-8");
    command.output().unwrap_or_else(|error| panic!("systemd-analyze: {error}; run make tools"))
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn systemd_has_nothing_to_say_against_the_units() {
    for with_rehearsals in [false, true] {
        let output = analyze(&["verify", "--man=no"], &install(with_rehearsals));
        assert!(output.status.success() && text(&output).is_empty(), "{}", text(&output));
    }
    // It would say so.
    let broken = install(false);
    let path = broken.path().join("holdfast.service");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "\n[Service]\nProtectSystm=strict\nType=notfy\n").unwrap();
    let said = text(&analyze(&["verify", "--man=no"], &broken));
    assert!(said.contains("ProtectSystm"), "{said}");
}

#[test]
fn the_exposure_that_is_written_down_is_what_systemd_says() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd/README.md")).unwrap();
    for (with_rehearsals, file) in [(false, "holdfast.service"), (true, "holdfast.service.d/rehearsal.conf")] {
        let said = text(&analyze(&["security", "--offline=true", "--no-pager"], &install(with_rehearsals)));
        let level = said.split("Overall exposure level for holdfast.service: ").nth(1).unwrap_or_else(|| panic!("{said}"));
        let level = level.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let row = page.lines().find(|line| line.contains(&format!("`{file}` |"))).unwrap();
        assert!(row.ends_with(&format!("| {level} |")), "{row}\nis not {level}");
    }
}

#[test]
fn the_unit_waits_for_readiness_gives_time_to_stop_and_does_not_restart_into_nonsense() {
    let unit = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/systemd/holdfast.service")).unwrap();
    // What the daemon promises: see daemon::supervise, daemon::notify and base::exit.
    for line in [
        "Type=notify",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "WatchdogSec=60",
        "TimeoutStopSec=180",
        "RestartPreventExitStatus=3",
        "StateDirectory=holdfast",
    ] {
        assert!(unit.lines().any(|known| known == line), "{line}");
    }
}
