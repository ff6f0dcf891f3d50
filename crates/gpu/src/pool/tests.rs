//! The pool with threads of the host.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Pool;

#[test]
fn recruits_work_beside_the_caller_and_are_used_again() {
    let pool = Pool::default();
    for _ in 0..50 {
        let met = std::sync::Barrier::new(3);
        let calls = AtomicUsize::new(0);
        let work = || {
            calls.fetch_add(1, Ordering::Relaxed);
            met.wait();
        };
        let got = pool.with_crew(&work, |crew| {
            crew.recruiter().recruit(2);
            met.wait();
            7
        });
        assert_eq!((got, calls.load(Ordering::Relaxed)), (7, 2));
    }
}

#[test]
fn crews_may_be_nested() {
    let pool = Pool::default();
    let inner_done = AtomicUsize::new(0);
    let outer = || {
        let met = std::sync::Barrier::new(2);
        let inner = || {
            met.wait();
            inner_done.fetch_add(1, Ordering::Relaxed);
        };
        pool.with_crew(&inner, |crew| {
            crew.recruiter().recruit(1);
            met.wait();
        });
    };
    pool.with_crew(&outer, |crew| {
        crew.recruiter().recruit(2);
        outer();
    });
    assert!((1..=3).contains(&inner_done.load(Ordering::Relaxed)));
}

#[test]
fn a_panic_comes_back_to_the_caller() {
    let pool = Pool::default();
    let began = std::sync::Barrier::new(2);
    let work = || {
        began.wait();
        panic!("lost");
    };
    let caught = catch_unwind(AssertUnwindSafe(|| {
        pool.with_crew(&work, |crew| {
            crew.recruiter().recruit(1);
            began.wait();
        });
    }));
    let panic = caught.expect_err("the panic of the member");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"lost"));
}
