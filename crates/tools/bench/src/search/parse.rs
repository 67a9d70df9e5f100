//! What a user types: which search, and goals.

use super::{Bisect, Goal, Mlr, Range, Search};
use barewire_port::suggest;
use std::str::FromStr;

/// Why a goal or a range cannot be searched for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadGoal(pub String);

/// Which search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// RFC 2544: no loss.
    Ndr,
    /// The same with a loss ratio.
    Pdr,
    /// RFC 9971.
    Mlr,
}

/// Their words.
const KINDS: [(&str, Kind); 3] = [("ndr", Kind::Ndr), ("pdr", Kind::Pdr), ("mlr", Kind::Mlr)];

impl Kind {
    /// Its word.
    pub fn word(self) -> &'static str {
        KINDS[self as usize].0
    }

    /// The search for `goals`: [`goals`] makes them.
    pub fn search(self, goals: &[Goal], range: Range) -> Box<dyn Search> {
        match (self, goals) {
            (Kind::Ndr | Kind::Pdr, [goal]) => Box::new(Bisect::new(goal.clone(), range)),
            _ => Box::new(Mlr::new(goals.to_vec(), range)),
        }
    }
}

impl FromStr for Kind {
    type Err = BadGoal;

    fn from_str(text: &str) -> Result<Kind, BadGoal> {
        let found = KINDS.iter().find(|(word, _)| *word == text);
        found.map(|&(_, kind)| kind).ok_or_else(|| {
            BadGoal(format!("unknown search `{text}`; {}", suggest(text, &KINDS.map(|(word, _)| word))))
        })
    }
}

/// Keys of a goal.
const KEYS: [&str; 7] = ["name", "loss", "exceed", "initial", "trial", "sum", "width"];

/// The goals of a search: those typed, each as `loss=0.005,exceed=0.5,trial=1,sum=21,width=0.01`, or what the kind has without
/// any: trials of `trial_s`. Keys that are not typed are the kind's.
///
/// # Errors
/// In words, with the nearest right key.
pub fn goals(kind: Kind, typed: &[String], trial_s: f64) -> Result<Vec<Goal>, BadGoal> {
    let default = match kind {
        Kind::Ndr => vec![Goal::ndr(trial_s)],
        Kind::Pdr => vec![Goal::pdr(trial_s)],
        Kind::Mlr => vec![Goal::median("ndr", 0.0, trial_s), Goal::median("pdr", 0.005, trial_s)],
    };
    if kind != Kind::Mlr && typed.len() > 1 {
        return Err(BadGoal(format!("`{}` has one goal; `mlr` has several", kind.word())));
    }
    let mut goals = match typed {
        [] => default,
        typed => {
            let one = |text: &String| parse(text, &default[0]);
            typed.iter().map(one).collect::<Result<Vec<_>, _>>()?
        }
    };
    for goal in &mut goals {
        goal.check()?;
    }
    Ok(goals)
}

fn parse(text: &str, default: &Goal) -> Result<Goal, BadGoal> {
    let mut goal = Goal { name: text.to_owned(), ..default.clone() };
    let ratio = default.sum_s / default.trial_s;
    let (mut initial, mut sum) = (None, None);
    for part in text.split(',') {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| BadGoal(format!("goal `{text}`: `{part}` is no key=value, such as loss=0.005")))?;
        let (key, value) = (key.trim(), value.trim());
        if key == "name" {
            goal.name = value.to_owned();
            continue;
        }
        let place = match key {
            "loss" => &mut goal.loss_ratio,
            "exceed" => &mut goal.exceed_ratio,
            "trial" => &mut goal.trial_s,
            "width" => &mut goal.width,
            "initial" => initial.insert(0.0),
            "sum" => sum.insert(0.0),
            _ => return Err(BadGoal(format!("goal `{text}`: unknown key `{key}`; {}", suggest(key, &KEYS)))),
        };
        *place = value
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .ok_or_else(|| BadGoal(format!("goal `{text}`: `{value}` of `{key}` is not a number")))?;
    }
    goal.initial_s = initial.unwrap_or(goal.trial_s);
    goal.sum_s = sum.unwrap_or(goal.trial_s * ratio);
    Ok(goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(kind: Kind, text: &str) -> Result<Goal, String> {
        goals(kind, &[text.to_owned()], 2.0).map(|mut goals| goals.remove(0)).map_err(|e| e.to_string())
    }

    #[test]
    fn goals_are_read_and_refused_in_words() {
        let goal =
            one(Kind::Mlr, "loss=0.005,exceed=0.25,trial=1,sum=11,initial=0.5,width=0.02,name=mine").unwrap();
        let want = Goal {
            name: "mine".to_owned(),
            loss_ratio: 0.005,
            exceed_ratio: 0.25,
            initial_s: 0.5,
            trial_s: 1.0,
            sum_s: 11.0,
            width: 0.02,
        };
        assert_eq!(goal, want);
        let goal = one(Kind::Mlr, "loss=0.1").unwrap();
        assert_eq!((goal.trial_s, goal.initial_s, goal.sum_s, goal.exceed_ratio), (2.0, 2.0, 42.0, 0.5));
        let goal = one(Kind::Ndr, "trial=5").unwrap();
        assert_eq!((goal.trial_s, goal.initial_s, goal.sum_s, goal.loss_ratio), (5.0, 5.0, 5.0, 0.0));
        for (text, part) in [
            ("los=0.1", "did you mean `loss`?"),
            ("loss", "no key=value"),
            ("loss=x", "`x` of `loss` is not a number"),
            ("loss=NaN", "is not a number"),
            ("loss=1", "less than 1"),
            ("exceed=1", "`exceed`"),
            ("sum=1", "`sum`"),
            ("initial=3", "`initial`"),
            ("trial=0", "`initial`"),
            ("width=0", "`width`"),
            ("trial=0.001,sum=10", "a thousand"),
        ] {
            let why = one(Kind::Mlr, text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
        let two = ["loss=0".to_owned(), "loss=0.1".to_owned()];
        assert!(goals(Kind::Pdr, &two, 1.0).is_err());
        assert_eq!(goals(Kind::Mlr, &two, 1.0).unwrap().len(), 2);
        assert_eq!(goals(Kind::Mlr, &[], 1.0).unwrap().len(), 2);
        assert!("mrl".parse::<Kind>().unwrap_err().to_string().contains("did you mean `mlr`?"));
        assert_eq!("pdr".parse::<Kind>().map(Kind::word), Ok("pdr"));
        assert!(Range::new(0, 5).is_err() && Range::new(6, 5).is_err() && Range::new(1, u64::MAX).is_err());
    }
}
