"""Page 2, a comparison, and the list of them; renaming, deleting and sharing."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import Http404
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from netweave.web import chosen_options, comparisons
from netweave.web.http.nets import document_response
from netweave.web.models import Comparison, State, Workspace
from netweave.web.nets import RefusedError
from netweave.web.options import LOOPBACK
from netweave.web.pages.shared import owned
from netweave.web.work import leases, storage

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


PAGE_SIZE = 25
OTHERS = 10
"""Other runs of a pair that its page leads to."""

SHARE_CHARACTERS = 43


def _own(owner: Workspace | None, key: UUID) -> Comparison:
    """Return a comparison of the visitor's; another's is not there."""
    if owner is None:
        raise Http404
    return get_object_or_404(Comparison, pk=key, workspace=owner)


@require_safe
@owned
def index(request: HttpRequest, owner: Workspace | None) -> HttpResponse:
    """Show the visitor's comparisons, those that hold the words that are searched for."""
    words = request.GET.get("q", "").strip()[:100]
    matching = Comparison.objects.filter(workspace=owner) if owner else Comparison.objects.none()
    for word in words.split():
        matching = matching.filter(Q(name__icontains=word) | Q(sentence__icontains=word))
    page = Paginator(matching, PAGE_SIZE).get_page(request.GET.get("page"))
    kept = urlencode({"q": words}) if words else ""
    return render(request, "web/comparisons.html", {"page": page, "words": words, "kept": kept})


@require_safe
@owned
def show(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Show a comparison: the viewer when it is done, how far it is before."""
    comparison = _own(owner, key)
    address = (
        request.build_absolute_uri(reverse("shared", args=[comparison.share])) if comparison.share else ""
    )
    source = reverse("api:comparison_document", args=[comparison.pk])
    context = {"comparison": comparison, "mine": True, "address": address, "source": source}
    context["address_note"] = _address_note(request, is_shared=bool(address))
    context["sharing"] = "sharing" in request.GET
    context["chosen"] = chosen_options.rows(comparison)
    context["colors"] = chosen_options.COLORS
    context["form"] = chosen_options.form_values(comparison)
    context["others"] = comparisons.others(comparison)[:OTHERS] if comparison.state == State.DONE else []
    return render(request, "web/comparison.html", context)


@require_safe
@owned
def against(request: HttpRequest, owner: Workspace | None, key: UUID, other: UUID) -> HttpResponse:
    """Show what differs between two comparisons of the same pair, the older one first."""
    pair = [_own(owner, key), _own(owner, other)]
    nets = [{found.net_a_id, found.net_b_id} for found in pair]
    if nets[0] != nets[1] or None in nets[0] or any(found.state != State.DONE for found in pair):
        raise Http404
    old, new = sorted(pair, key=lambda found: found.created)
    results = [storage.kept_json(found.result) for found in (old, new)]
    difference = comparisons.run_difference(old, new, *results)
    return render(request, "web/against.html", {"old": old, "new": new, "difference": difference})


@require_POST
@owned
def rename(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Give a comparison another name."""
    comparison = _own(owner, key)
    comparisons.rename(comparison, request.POST.get("name", ""))
    messages.success(request, f"Renamed to “{comparison.name}”.")
    return redirect(_back(request, comparison))


@require_POST
@owned
def delete(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Delete a comparison."""
    comparison = _own(owner, key)
    comparisons.delete(comparison)
    messages.success(request, f"Deleted “{comparison.name}”.")
    return redirect("comparisons")


@require_POST
@owned
def cancel(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Stop a comparison that is not done."""
    comparison = _own(owner, key)
    leases.cancel(comparison)
    return redirect("comparison", comparison.pk)


@require_POST
@owned
def swap(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Compare again with the two nets in each other's place."""
    comparison = _own(owner, key)
    try:
        made = comparisons.swap(comparison)
    except RefusedError as error:
        messages.error(request, str(error))
        return redirect("comparison", comparison.pk)
    return redirect("comparison", made.pk)


@require_POST
@owned
def share(request: HttpRequest, owner: Workspace | None, key: UUID) -> HttpResponse:
    """Make the shared link, or end it."""
    comparison = _own(owner, key)
    if request.POST.get("end"):
        comparisons.unshare(comparison)
        messages.success(request, "The shared link has ended.")
        return redirect("comparison", comparison.pk)
    comparison.make_share()
    return redirect(f"{reverse('comparison', args=[comparison.pk])}?sharing")


@require_safe
def shared(request: HttpRequest, secret: str) -> HttpResponse:
    """Show a comparison to whoever has its shared link."""
    comparison = _shared(secret)
    source = reverse("shared-document", args=[secret])
    context = {"comparison": comparison, "mine": False, "source": source}
    context["address_note"] = _address_note(request, is_shared=True)
    return render(request, "web/comparison.html", context)


@require_safe
def shared_document(request: HttpRequest, secret: str) -> HttpResponse:
    """Return what the viewer shows of a shared comparison."""
    return document_response(request, _shared(secret).document)


def _shared(secret: str) -> Comparison:
    if len(secret) != SHARE_CHARACTERS:
        raise Http404
    return get_object_or_404(Comparison, share=secret, state=State.DONE)


def _address_note(request: HttpRequest, *, is_shared: bool) -> str:
    """Return what whoever copies the address of a layer should know."""
    if not is_shared:
        return "It opens for you only; create a link under Share for others."
    host = request.get_host().rsplit(":", 1)[0]
    return "It opens on this computer only." if host in LOOPBACK else ""


def _back(request: HttpRequest, found: Comparison) -> str:
    """Return where a form was sent from: the list, or the page of the comparison."""
    return (
        reverse("comparisons")
        if request.POST.get("back") == "list"
        else reverse("comparison", args=[found.pk])
    )
