"""Uploads that nobody has used for as long as the operator keeps them."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from netweave.web.models import UNFINISHED, Comparison, Net, OwnInput
from netweave.web.work import storage

UNUSED_INPUTS_KEPT = timedelta(days=1)
"""A file of inputs that no comparison uses was left behind by a page that did not go on."""


def delete_unused_inputs() -> int:
    """Delete the files of inputs that no comparison uses any more; return how many."""
    since = timezone.now() - UNUSED_INPUTS_KEPT
    unused = list(OwnInput.objects.filter(comparisons=None, created__lt=since))
    for own in unused:
        storage.drop([own.stored])
        own.delete()
    return len(unused)


def delete_unused_nets() -> int:
    """Delete the nets that were neither read nor compared lately; return how many.

    What was found about them stays: a comparison outlives its nets.
    """
    if not settings.OPTIONS.keep_days:
        return 0
    since = timezone.now() - timedelta(days=settings.OPTIONS.keep_days)
    used = Comparison.objects.filter(Q(created__gte=since) | Q(state__in=UNFINISHED))
    kept = [key for pair in used.values_list("net_a", "net_b") for key in pair if key]
    unused = Net.objects.filter(touched__lt=since, created__lt=since).exclude(state__in=UNFINISHED)
    count = 0
    for net in unused.exclude(pk__in=kept):
        storage.delete_net(net)
        count += 1
    return count
