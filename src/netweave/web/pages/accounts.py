"""Signing in, up and out, by Django's own accounts, where the operator has switched accounts on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from netweave.web.pages.shared import too_many
from netweave.web.safety import TooManyError, client, count

if TYPE_CHECKING:
    from django.http import HttpRequest


NAME_FACTOR = 20
"""So many times as often as one address a name may be tried by all addresses together."""


class _WithAccounts:
    """A view that is not there where accounts are off."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Answer a request, or refuse it for lack of accounts."""
        if not settings.OPTIONS.has_accounts:
            raise Http404
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc]  # a view stands behind it


class SignIn(_WithAccounts, LoginView):
    """The form to sign in; tries are counted by address and by name."""

    template_name = "web/sign-in.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: str, **kwargs: Any) -> HttpResponse:
        """Try to sign in."""
        if refusal := _counted(request):
            return refusal
        return super().post(request, *args, **kwargs)


class SignOut(_WithAccounts, LogoutView):
    """The button that signs out."""


@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    """Make an account, where anybody may."""
    if settings.OPTIONS.accounts != "open":
        raise Http404
    form: UserCreationForm[Any] = UserCreationForm(request.POST or None)
    if request.method == "POST":
        if refusal := _counted(request):
            return refusal
        if form.is_valid():
            login(request, form.save())
            return redirect("new")
    return render(request, "web/sign-up.html", {"form": form})


def _counted(request: HttpRequest) -> HttpResponse | None:
    """Count a try; return the refusal of one too many."""
    limit = settings.OPTIONS.sign_ins_per_minute
    try:
        count("tries to sign in", client(request), limit=limit)
        # many addresses against one name: far more than its owner tries, who must not be locked out by others
        name = request.POST.get("username", "")
        count("tries to sign in", f"name {name}", limit=limit * NAME_FACTOR)
    except TooManyError as error:
        return too_many(request, error)
    return None
