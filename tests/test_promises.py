"""The promises of this product, and which tests keep each. A promise without a test that exists, and runs, fails here.

A name is a file under tests/ and a function or method in it; a function's docstring and body say what it proves.
"""

import ast
from functools import cache

import pytest

from tests.environment import ROOT

PROMISES = {
    # --- Inbox
    1: (
        "Only the legal moves happen, whoever tries. Reading, listing and previewing change nothing.",
        "inbox/test_item_guard.py::test_only_the_moves_of_the_design_happen",
        "inbox/test_item_guard.py::test_every_other_shape_is_refused_at_birth",
        "inbox/test_item_guard.py::test_a_given_answer_is_frozen",
        "inbox/test_items.py::test_a_closed_item_refuses_and_says_why",
        "agents/test_turns.py::test_only_the_moves_of_the_design_happen",
        "agents/test_tools.py::test_only_the_moves_of_the_design_happen",
        "inbox/test_items.py::test_looking_changes_nothing",
        "api/test_inbox_routes.py::test_reading_changes_nothing",
        "admin/test_matrix.py::test_only_post_changes_a_row",
    ),
    2: (
        "N racing resolvers: one success, N-1 conflicts, one audit record, the winner's text kept.",
        "inbox/test_item_races.py::test_twenty_people_resolve_one_item",
        "inbox/test_item_races.py::test_a_deadline_and_a_resolver_at_the_same_instant",
        "api/test_races.py::test_one_answer_wins",
    ),
    3: (
        "A reply enters the transcript exactly once: two turns at once, a crash between any two statements, a doubled doorbell.",
        "agents/test_receive.py::test_turns_that_read_one_mailbox_at_once",
        "agents/test_journal.py::test_a_worker_dies",
        "agents/test_turns.py::test_a_doorbell_rung_many_times_runs_the_turn_once",
        "agents/test_waking.py::test_nothing_that_arrives_while_turns_end_is_lost",
        "storm/test_crash_points.py::test_nothing_is_lost_doubled_illegal_stuck_or_orphaned_at_any_point",
    ),
    4: (
        "What was answered 2xx survives kill -9 of any process and an immediate restart of Postgres.",
        "agents/test_journal.py::test_a_resolver_dies_between_its_answer_and_the_wake",
        "site/test_separate_processes.py::test_the_story_and_workers_that_are_killed",
        "storm/test_crash_points.py::test_nothing_is_lost_doubled_illegal_stuck_or_orphaned_at_any_point",
    ),
    5: (
        "A compaction's pending list is the database's; what is posted or resolved meanwhile is there too, once.",
        "agents/test_compaction.py::test_the_summary_carries_what_is_open_from_the_database",
        "agents/test_compaction.py::test_what_happens_while_the_summary_is_made_is_known_once",
    ),
    6: (
        "Blocking is soft: an unrelated question is answered, the reminder stands once in each prompt and never in the history.",
        "agents/test_reminders.py::test_an_unrelated_question_is_answered_while_a_request_blocks",
        "agents/test_reminders.py::test_a_reminder_is_never_stored",
    ),
    7: (
        "What one may not see is invisible: in lists, counts, searches, autocompletes, links.",
        "inbox/test_access.py::test_lists_and_looks_agree_on_every_tag",
        "inbox/test_access.py::test_what_one_may_not_see_is_not_counted_either",
        "admin/test_matrix.py::test_a_stranger_to_the_group_finds_none_of_its_rows",
        "inbox/test_answers.py::test_a_link_dies",
    ),
    8: (
        "A late answer to a closed item is a conflict; an expiry is never told as a person's refusal.",
        "inbox/test_answers.py::test_a_late_answer_is_a_conflict_with_its_text_and_no_entry",
        "inbox/test_answers.py::test_an_expiry_is_never_told_as_a_refusal",
    ),
    # --- Turns
    9: (
        "One writer per conversation; a stale worker's commit is refused. Messages sent meanwhile are queued in order.",
        "agents/test_turns.py::test_one_of_many_claims_the_turn",
        "agents/test_turns.py::test_a_worker_that_slept_can_write_nothing",
        "agents/test_conversations.py::test_many_speakers_are_heard_in_the_order_of_their_ids",
        "agents/test_conversations.py::test_a_message_during_a_tool_is_read_at_the_next_boundary",
    ),
    10: (
        "The prompt validator holds before every model call.",
        "agents/test_prompt.py::test_whatever_happens_every_prompt_is_valid_and_every_turn_ends_by_name",
        "agents/test_prompt.py::test_a_prompt_that_passes_breaks_no_rule_of_the_provider",
        "agents/test_prompt.py::test_the_ids_of_an_earlier_reply_are_told_apart",
        "agents/test_prompt.py::test_a_history_that_a_bug_left_broken_fails_the_turn_by_name",
    ),
    11: (
        "A tool call runs at most once, unless declared idempotent or atomic. After a crash the model is told what is unknown.",
        "agents/test_journal.py::test_a_worker_dies",
        "agents/test_late_results.py::test_a_late_result_waits_for_a_database_that_is_away_for_a_moment",
        "agents/test_late_results.py::test_what_is_written_as_the_conversation_closes",
        "agents/test_tools.py::test_a_started_call_is_unknown_after_a_crash_and_one_not_started_runs",
        "agents/test_tools.py::test_an_atomic_tool_and_its_journal_row_are_one_transaction",
        "agents/test_tools.py::test_a_call_that_a_lost_database_left_running_is_not_run_twice",
        "storm/test_crash_points.py::test_nothing_is_lost_doubled_illegal_stuck_or_orphaned_at_any_point",
    ),
    12: (
        "A cut or invalid tool input never runs.",
        "agents/test_tools.py::test_an_invalid_call_is_answered_and_not_run",
        "agents/test_tools.py::test_a_call_that_was_cut_off_is_not_run_and_tried_once_with_more_room",
        "agents/test_tools.py::test_a_stream_that_broke_is_no_call",
        "agents/test_model_faults.py::test_a_passing_fault_leaves_nothing_and_is_tried_again",
        "agents/test_model_faults.py::test_a_call_whose_input_is_no_json_object_is_not_run",
    ),
    13: (
        "A permission is bound to mailbox, agent, tool and canonical arguments, with a scope and an expiry.",
        "agents/test_permissions.py::test_a_grant_for_these_arguments",
        "agents/test_permissions.py::test_a_grant_is_bound",
        "agents/test_permissions.py::test_no_arguments_is_not_any",
        "agents/test_permissions.py::test_without_a_grant_a_gated_tool_never_runs",
    ),
    14: (
        "Refusal, empty, unknown stop: visible state, no retry loop, conversation usable.",
        "agents/test_turns.py::test_what_would_fail_again_fails_at_once",
        "agents/test_model_faults.py::test_a_permanent_fault_fails_the_turn_by_name_without_a_retry",
        "agents/test_model_faults.py::test_a_prompt_that_is_always_too_long_fails_by_name",
        "agents/test_compaction.py::test_what_grew_too_long_in_one_step_can_be_summarised_all_the_same",
    ),
    15: (
        "No transaction is open during a model call or a tool, except a tool declared atomic (at most 5 s).",
        "agents/test_tools.py::test_no_transaction_is_open_while_a_tool_or_the_model_works",
        "agents/test_tools.py::test_an_atomic_tool_that_dawdles_is_taken_back",
        "inbox/test_resolvers.py::test_no_transaction_is_open_while_the_function_runs",
    ),
    16: (
        "No due queued turn and no running turn with a lapsed lease is left longer than lease + idle timeout + sweep.",
        "agents/test_turns.py::test_what_a_sweep_rings",
        "site/test_sweep.py::test_a_lost_workers_turn_is_rung_by_the_first_pass_after_its_lease",
        "site/test_sweep.py::test_a_turn_that_was_rung_and_did_not_start_is_rung_again_after_a_while",
        "agents/test_turns.py::test_a_lost_bell_is_found_within_lease_idle_timeout_and_sweep",
        "site/test_sweep.py::test_a_worker_that_starts_rings_what_hung_in_the_memory_of_one_that_ended",
        "storm/test_crash_points.py::test_nothing_is_lost_doubled_illegal_stuck_or_orphaned_at_any_point",
    ),
    # --- Mesh
    17: (
        "The stored sender is the authenticated one.",
        "mesh/test_api.py::test_it_sends_acknowledges_and_reads_as_its_peer",
        "mesh/test_api.py::test_a_retired_peers_key_opens_nothing",
        "mesh/test_tools.py::test_the_sender_is_the_peer_whose_turn_it_is",
        "mesh/test_waits.py::test_a_note_speaks_for_its_peer_alone",
        "mesh/test_sending.py::test_only_ascii_addresses_unique_without_case",
    ),
    18: (
        "One message and recipient: one item. One idempotency key: one message id.",
        "mesh/test_sending.py::test_the_same_recipient_twice_is_one_item",
        "mesh/test_api.py::test_one_idempotency_key_is_one_message",
        "mesh/test_waits.py::test_a_reply_ends_the_wait_and_is_read_once",
        "mesh/test_races.py::test_an_acknowledgement_against_a_reply_of_the_same_peer",
        "mesh/test_races.py::test_a_turn_that_is_cancelled_while_it_sends",
    ),
    19: (
        "Only an addressee acknowledges; the wait is committed with the message and survives restarts.",
        "mesh/test_sending.py::test_others_neither_acknowledge_nor_reply",
        "mesh/test_sending.py::test_a_reply_goes_to_the_original_sender",
        "mesh/test_waits.py::test_the_wait_is_committed_with_the_message",
        "mesh/test_waits.py::test_a_wait_for_a_conversation_that_is_closed_already",
        "mesh/test_waits.py::test_the_answer_comes_though_the_sender_restarts",
        "mesh/test_waits.py::test_a_wait_outlives_its_conversation",
        "mesh/test_races.py::test_two_acknowledgements_on_a_quorum_of_two",
        "mesh/test_races.py::test_retiring_against_an_acknowledgement",
    ),
    20: (
        "No message is lost silently: it is delivered, or dead with a reason that staff can see and retry.",
        "mesh/test_sending.py::test_a_broken_send_leaves_nothing",
        "mesh/test_delivering.py::test_what_is_lost_or_doubled_arrives_once",
        "mesh/test_delivering.py::test_one_that_cannot_be_delivered_is_dead_and_holds_nobody_up",
        "mesh/test_admin.py::test_dead_deliveries_are_sent_again_or_closed",
        "mesh/test_races.py::test_an_acknowledgement_against_who_else_may_end_a_wait",
        "mesh/test_races.py::test_acknowledgements_below_the_quorum_against_the_deadline",
        "mesh/test_chains.py::test_who_waits_for_an_answer_that_was_refused_is_told_and_goes_on",
        "mesh/test_flow.py::test_the_crew_makes_its_document_though_a_worker_is_killed",
        "mesh/test_lock_order.py::test_everybody_at_once",
    ),
    21: (
        "Hop budget; order per pair; no reader skips a late commit.",
        "mesh/test_chains.py::test_polite_agents_stop_within_the_budget",
        "mesh/test_delivering.py::test_each_pair_keeps_its_order_whatever_comes_first",
        "mesh/test_races.py::test_sends_of_one_peer_from_many_threads_keep_their_order",
        "mesh/test_races.py::test_a_letter_that_commits_late_is_not_skipped",
    ),
    # --- Time and text
    22: (
        "A resolver runs once per instant: two beats, restarts and clock changes included. An item's exception stops no other.",
        "inbox/test_resolvers.py::test_racing_ticks_make_one_run",
        "inbox/test_resolvers_and_clock_changes.py::test_two_beats_over_every_change",
        "inbox/test_resolvers.py::test_one_items_exception_does_not_stop_the_others",
    ),
    23: (
        "Text that cannot be carried is refused with 422 or 413 at the edge; from a model or a tool it gets a visible mark.",
        "inbox/test_text.py::test_check_gives_the_text_itself_or_refuses",
        "inbox/test_text.py::test_clean_makes_any_text_storable_and_marks_each_spot",
        "api/test_bad_input.py::test_it_says_what_to_do_and_changes_nothing",
        "agents/test_tools.py::test_a_result_is_made_storable_and_told",
    ),
    # --- Safety
    24: (
        "Outside text is framed unforgeably; invisible and bidirectional characters are shown to staff.",
        "agents/test_frames.py::test_no_text_can_close_its_frame",
        "agents/test_frames.py::test_a_forged_second_letter_reaches_the_model_as_one",
        "agents/test_frames.py::test_a_user_cannot_write_a_letter",
        "inbox/test_text.py::test_a_sum_that_reads_differently_to_a_model_shows",
    ),
    25: (
        "Every path of the admin calls the same service; no GET changes a row; text is never HTML; exports are escaped.",
        "admin/test_matrix.py::test_only_post_changes_a_row",
        "admin/test_matrix.py::test_a_post_without_its_token_changes_nothing",
        "admin/test_exports.py::test_what_could_be_a_formula_gets_an_apostrophe",
        "browser/test_desk.py::test_what_models_and_people_write_stays_text",
    ),
    26: (
        "Keys hashed, compared in constant time, absent from logs, events, the broker and HTML.",
        "api/test_auth.py::test_only_the_hash_of_a_key_is_kept",
        "site/test_logs.py::test_secrets_are_struck_out",
        "inbox/test_links.py::test_the_token_is_not_kept",
    ),
    27: (
        "Webhooks in: signature over the raw body; a 5 minute window and ids remembered.",
        "inbox/test_webhooks.py::test_the_raw_body_is_signed",
        "inbox/test_webhooks.py::test_outside_the_window",
        "inbox/test_webhooks.py::test_a_replay_inside_the_window_has_no_second_effect",
    ),
    28: (
        "Doorbells: drop all -> everything done by the sweep; ring each three times -> nothing changes.",
        "agents/test_waking.py::test_everything_is_done_by_the_sweep_when_no_doorbell_rings",
        "agents/test_waking.py::test_a_second_wake_changes_nothing",
        "site/test_sweep.py::test_with_all_doorbells_dropped_the_sweep_does_everything",
        "site/test_sweep.py::test_each_doorbell_rung_three_times_changes_nothing",
        "site/test_separate_processes.py::test_each_doorbell_three_times",
    ),
}


@cache
def named_in(file: str) -> dict[str, list[str]]:
    """The tests of a file, each with the names of its decorators."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    return {node.name: [ast.unparse(decorator) for decorator in node.decorator_list] for node in found}


@pytest.mark.parametrize("number", PROMISES)
def test_the_promise_is_kept_by_tests_that_run(number):
    _, *names = PROMISES[number]
    assert names
    for name in names:
        file, _, test = name.partition("::")
        assert test in named_in(file), f"promise {number}: there is no {name}"
        idle = [mark for mark in named_in(file)[test] if "skip" in mark or "xfail" in mark]
        assert not idle, f"promise {number}: {name} does not run: {idle}"


def test_all_of_them_are_here():
    assert list(PROMISES) == list(range(1, 29))
