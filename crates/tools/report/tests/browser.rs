//! The page in a real browser, where one is installed: it runs its script and no other, asks for nothing, fits a phone, and no text of a
//! chart lies on another.

mod sample;

use barewire_report::compare::{Method, compare};
use barewire_report::html::page;
use barewire_report::report::{Options, Report};
use barewire_testing::{Needs, skip};
use sample::{HOSTILE, full};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BROWSERS: [&str; 5] = [
    "/usr/lib/chromium/chromium",
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/opt/google/chrome/chrome",
];

/// A browser asks for updates by itself, so it gets a network namespace without a network: as root, or in a user namespace.
const ALONE: [&[&str]; 2] = [&["--net"], &["--net", "--user", "--map-root-user"]];

/// The browser, and how to keep it from the network.
struct Browser {
    path: PathBuf,
    alone: &'static [&'static str],
}

fn browser() -> Option<Browser> {
    let Some(path) = BROWSERS.iter().map(PathBuf::from).find(|p| p.is_file()) else {
        skip(Needs::Peers, "no Chromium here; the page was not opened in a browser");
        return None;
    };
    let works = |args: &&&[&str]| {
        let status = Command::new("unshare").args(**args).args(["--", "true"]).stderr(Stdio::null()).status();
        status.is_ok_and(|s| s.success())
    };
    let Some(alone) = ALONE.iter().find(works) else {
        skip(Needs::Root, "no network namespace can be made for the browser; the page was not opened in one");
        return None;
    };
    Some(Browser { path, alone })
}

/// What came of opening a file.
struct Opened {
    dom: String,
    console: Vec<String>,
    requests: Vec<String>,
}

fn open(browser: &Browser, dir: &Path, name: &str, html: &str, width: u32, dark: bool) -> Opened {
    let file = dir.join(format!("{name}.html"));
    let net_log = dir.join(format!("{name}.netlog.json"));
    fs::write(&file, html).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(browser.alone)
        .arg("--")
        .arg(&browser.path)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-pings",
        ])
        .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.join("profile").display()))
        .arg(format!("--log-net-log={}", net_log.display()))
        .arg(format!("--window-size={width},2000"))
        .arg("--virtual-time-budget=3000");
    if dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    let out = command.arg(format!("file://{}", file.display())).stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{stderr}");
    // The browser's own pages speak there, too.
    let of_page = |l: &&str| l.contains("CONSOLE") && !l.contains("source: chrome");
    let console = stderr.lines().filter(of_page).map(str::to_owned).collect();
    let log: Value = serde_json::from_str(&fs::read_to_string(&net_log).unwrap()).unwrap();
    let mut requests = Vec::new();
    for event in log["events"].as_array().unwrap() {
        // Requests of the page are made for its site; the browser's own, for updates and the like, for none.
        let params = &event["params"];
        let of_page = params["site_for_cookies"].as_str().is_some_and(|s| s.contains("file://"));
        if let Some(url) = params["url"].as_str().filter(|u| of_page && !u.starts_with("file:")) {
            requests.push(url.to_owned());
        }
    }
    Opened { dom: String::from_utf8_lossy(&out.stdout).into_owned(), console, requests }
}

/// What came of opening a file until `seen`, some times at most: a browser that waits for a core may look at a page before all of it
/// is there.
fn open_until(seen: impl Fn(&Opened) -> bool, open: impl Fn() -> Opened) -> Opened {
    let seen = (0..3).map(|_| open()).find(seen);
    seen.unwrap_or_else(open)
}

/// Measured in the page: how wide it is, how much sticks out, which texts of visible charts lie on each other or outside.
const PROBE: &str = r#"<script>
(function () {
  function hits(a, b) {
    return Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
  }
  var overlaps = [], outside = [], small = [], shown = 0;
  document.querySelectorAll("svg.chart").forEach(function (svg) {
    var frame = svg.getBoundingClientRect();
    if (!frame.width) return;
    shown += 1;
    var texts = Array.prototype.slice.call(svg.querySelectorAll("text"));
    var boxes = texts.map(function (t) { return t.getBoundingClientRect(); });
    texts.forEach(function (t, i) {
      if (boxes[i].height < 9) small.push(t.textContent);
      if (boxes[i].left < frame.left - 1 || boxes[i].right > frame.right + 1 || boxes[i].bottom > frame.bottom + 1)
        outside.push(svg.parentNode.id + ": " + t.textContent);
      for (var j = 0; j < i; j++)
        if (hits(boxes[i], boxes[j])) overlaps.push(svg.parentNode.id + ": " + texts[j].textContent + " / " + t.textContent);
    });
  });
  var wide = [];
  document.querySelectorAll("main *").forEach(function (e) {
    if (!e.closest(".wide-box") && e.getBoundingClientRect().right > window.innerWidth + 1) wide.push(e.tagName + " " + e.className);
  });
  var button = document.getElementById("theme");
  var before = getComputedStyle(document.body).backgroundColor;
  button.click();
  var after = getComputedStyle(document.body).backgroundColor;
  var svg = document.querySelector("svg.chart.wide");
  svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  var said = svg.parentNode.querySelector(".said").textContent;
  parent.postMessage(JSON.stringify({
    inner: window.innerWidth, scroll: document.documentElement.scrollWidth, wide: wide.slice(0, 5), overlaps: overlaps, outside: outside,
    small: small, shown: shown, before: before, after: after, said: said
  }), "*");
})();
</script></body>"#;

fn probe(browser: &Browser, dir: &Path, html: &str, name: &str, width: u32, dark: bool) -> Value {
    // The page's policy lets no other script run: for the probe it is taken out.
    let at = html.find("<meta http-equiv=").unwrap();
    let end = at + html[at..].find('>').unwrap() + 1;
    let html = format!("{}{}", &html[..at], &html[end..]).replace("</body>", PROBE);
    fs::write(dir.join(format!("{name}.page.html")), html).unwrap();
    // A window is never narrower than 500 pixels; a frame in it is as narrow as a phone.
    let frame = format!(
        "<!DOCTYPE html><meta name=\"color-scheme\" content=\"light dark\"><script>onmessage = e => \
         document.documentElement.setAttribute('data-probe', e.data)</script>\
         <iframe src=\"{name}.page.html\" width=\"{width}\" height=\"2000\" style=\"border:0\"></iframe>"
    );
    let answered = |opened: &Opened| opened.dom.contains("data-probe=\"");
    let opened = open_until(answered, || open(browser, dir, name, &frame, 1300, dark));
    let start = opened.dom.find("data-probe=\"").expect("the probe ran") + 12;
    let text = &opened.dom[start..start + opened.dom[start..].find('"').unwrap()];
    let text = text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = browser() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (full(dir.path(), "before", 1.0), full(dir.path(), HOSTILE, 1.2));
    let report =
        Report::of(&[&b], &Options::default()).with_comparison(compare(&[&a], &[&b], Method::default()));
    let html = page(&report);

    let button = "<button type=\"button\" id=\"theme\" aria-label=\"Switch to dark colours\">Dark</button>";
    let opened = open_until(
        |opened| opened.dom.contains(button),
        || open(&browser, dir.path(), "as-it-is", &html, 1200, false),
    );
    assert_eq!(opened.console, Vec::<String>::new());
    assert_eq!(opened.requests, Vec::<String>::new());
    // The script ran: its hash is the one that the policy names.
    assert!(opened.dom.contains(button), "the script did not run");
    assert!(opened.dom.contains("tabindex=\"0\""));
    for part in [
        "t-machnet-latency",
        "t-machnet-load",
        "t-rc-threads-by-threads",
        "comparison",
        "waterfalls",
        "machines",
    ] {
        assert!(opened.dom.contains(&format!("id=\"{part}\"")), "{part}");
    }

    // A page that does ask for something is noticed.
    let asking = "<!DOCTYPE html><img src=\"http://elsewhere.invalid/x.png\">";
    let asked = open_until(
        |opened| !opened.requests.is_empty(),
        || open(&browser, dir.path(), "asking", asking, 1200, false),
    );
    assert_eq!(asked.requests, ["http://elsewhere.invalid/x.png"]);

    // A policy that does not hold would show here: the same page with one script more.
    let foreign = html.replace("</main>", "<script>console.error('ran')</script></main>");
    let refused = |opened: &Opened| opened.console.iter().any(|l| l.contains("Content Security Policy"));
    let opened = open_until(refused, || open(&browser, dir.path(), "foreign", &foreign, 1200, false));
    assert!(refused(&opened), "{:?}", opened.console);
    assert!(!opened.console.iter().any(|l| l.contains("\"ran\"")), "{:?}", opened.console);

    for (name, width, dark) in [("desk", 1200, false), ("desk-dark", 1200, true), ("phone", 390, false)] {
        let got = probe(&browser, dir.path(), &html, name, width, dark);
        let none = |key: &str| assert_eq!(got[key], serde_json::json!([]), "{name}: {key}");
        ["overlaps", "outside", "small", "wide"].into_iter().for_each(none);
        assert_eq!(got["inner"], width, "{name}");
        assert!(got["scroll"].as_u64() <= got["inner"].as_u64(), "{name}: {got}");
        assert!(got["shown"].as_u64() >= Some(10), "{name}: {got}");
        let ground = if dark { "rgb(20, 24, 29)" } else { "rgb(255, 255, 255)" };
        let other = if dark { "rgb(255, 255, 255)" } else { "rgb(20, 24, 29)" };
        assert_eq!((got["before"].as_str(), got["after"].as_str()), (Some(ground), Some(other)), "{name}");
        assert!(!got["said"].as_str().unwrap_or_default().is_empty(), "{name}: arrow keys tell nothing");
    }
}
