"""Actions of users, and the second factors with which they confirm them.

Clean payloads are::

    {"action_id": "9f…", "user_id": "user-00042", "action": "login", "device_id": "dev-00042",
     "event_at": "2026-11-20T08:15:30.123Z"}
    {"confirmation_id": "1a…", "action_id": "9f…", "user_id": "user-00042", "method": "totp",
     "event_at": "2026-11-20T08:15:42.000Z"}

A confirmation belongs to an action that arrived some minutes before it. Most follow within two minutes, some
too late to count, and one action in five is never confirmed.
"""

import numpy as np

from fleet.play.kinds import Numbers, Story, objects
from fleet.play.plan import Plan
from fleet.play.player import Player, moments

ACTIONS = (b"login", b"login", b"login", b"logout", b"change_password")
METHODS = (b"totp", b"push", b"key")
ACTION = (
    b'{"action_id": "%b", "user_id": "%b", "action": "%b", "device_id": "%b", "event_at": "%b%b"}'
)
CONFIRMATION = (
    b'{"confirmation_id": "%b", "action_id": "%b", "user_id": "%b", "method": "%b", '
    b'"event_at": "%b%b"}'
)
AFTER = 300_000
"""The milliseconds by which an action arrives before its confirmation; longer than any answer takes."""


class Actions(Player):
    """The actions of a plan's users; there are as many users as devices."""

    variants = objects("action_id", "user_id", "action")

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the user of each action."""
        return [b"user-%05d" % user for user in self.users(numbers).tolist()]

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return an action for each event."""
        devices = self.chance.below(self.plan.devices, "device", numbers)
        columns = (
            self.ids(numbers),
            self.keys(numbers),
            self.one_of(ACTIONS, "action", numbers),
            [b"dev-%05d" % device for device in devices.tolist()],
            *moments(happened_at),
        )
        return list(map(ACTION.__mod__, zip(*columns, strict=True)))

    def users(self, numbers: Numbers) -> Numbers:
        """Return the number of each action's user."""
        return self.chance.below(self.plan.devices, "user", numbers)


class ConfirmationStory(Story):
    """Confirmations: their event time is when the user answers, whatever the network does."""

    def __init__(self, plan: Plan, actions: Actions) -> None:
        """Keep the actions that are confirmed."""
        super().__init__(plan)
        self._actions = actions

    def confirmed(self, numbers: Numbers) -> Numbers:
        """Return the number of the action that each confirmation belongs to."""
        mine, theirs = self.plan, self._actions.plan
        back = -(-AFTER * theirs.events // theirs.span_ms) + 1
        return np.maximum(numbers * theirs.events // max(mine.events, 1) - back, 0)

    def usual_delay(self, numbers: Numbers) -> Numbers:
        """Return the time from the user's answer, seconds to minutes after the action, to the arrival."""
        actions = self.confirmed(numbers)
        kinds, _ = self._actions.story.kinds(actions)
        acted_at = self._actions.story.happened_at(actions, kinds)
        prompt = 2_000 + self.chance.below(90_000, "answer", numbers)
        slow = 121_000 + self.chance.below(120_000, "slow answer", numbers)
        is_slow = self.chance.below(20, "manner of answer", numbers) == 0
        return self.arrived_at(numbers) - acted_at - np.where(is_slow, slow, prompt)


class Confirmations(Player):
    """The second factors of a plan's users, four for five actions."""

    variants = objects("confirmation_id", "action_id", "user_id")

    def __init__(self, plan: Plan, actions: Plan) -> None:
        """Keep both plans; ``actions`` is the plan of the confirmed actions."""
        self._actions = Actions(actions)
        super().__init__(plan)

    def make_story(self, plan: Plan) -> Story:
        """Return the story of the confirmations."""
        self._answers = ConfirmationStory(plan, self._actions)
        return self._answers

    def keys(self, numbers: Numbers) -> list[bytes]:
        """Return the user of each confirmation."""
        return self._actions.keys(self._answers.confirmed(numbers))

    def clean(self, numbers: Numbers, happened_at: Numbers) -> list[bytes]:
        """Return a confirmation for each event."""
        actions = self._answers.confirmed(numbers)
        columns = (
            self.ids(numbers),
            self._actions.ids(actions),
            self._actions.keys(actions),
            self.one_of(METHODS, "method", numbers),
            *moments(happened_at),
        )
        return list(map(CONFIRMATION.__mod__, zip(*columns, strict=True)))
