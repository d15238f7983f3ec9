"""Django's settings, made from the operator's choices (``options``)."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dj_database_url

from netweave.web.options import DATA, LOOPBACK, RUNS, SECRET_KEY_FILE, Options, default_data, read_options
from netweave.web.time_zone import machine_time_zone

OPTIONS: Options = read_options(Path(os.environ.get(DATA) or default_data()))
if RUNS in os.environ:
    OPTIONS = dataclasses.replace(OPTIONS, runs=os.environ[RUNS])
DATA_FOLDER = OPTIONS.data
PACKAGE = Path(__file__).parent


def _secret_key() -> str:
    """Return the key of this data folder; none, with which Django signs nothing, before ``serve``."""
    file = DATA_FOLDER / SECRET_KEY_FILE
    return file.read_text(encoding="utf-8") if file.exists() else ""


def _database() -> dict[str, Any]:
    url = os.environ.get("DATABASE_URL")
    if url:
        return dict(dj_database_url.parse(url, conn_max_age=60, conn_health_checks=True))
    return {
        "ENGINE": "netweave.web.sqlite",
        "NAME": DATA_FOLDER / "netweave.sqlite3",
        "CONN_MAX_AGE": 60,
        "OPTIONS": {
            # readers never wait for the writer, writers wait for each other in line
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


def _file_storage() -> dict[str, Any]:
    if not OPTIONS.storage:
        folder = {"location": DATA_FOLDER / "files", "file_permissions_mode": 0o600}
        return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": folder}
    place = urlsplit(OPTIONS.storage)
    bucket = {"bucket_name": place.netloc, "location": place.path.strip("/"), "default_acl": None}
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": bucket}


SECRET_KEY = _secret_key()
DEBUG = False
ALLOWED_HOSTS = [*LOOPBACK, *OPTIONS.hosts]
ROOT_URLCONF = "netweave.web.urls"
WSGI_APPLICATION = "netweave.web.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = machine_time_zone()
LANGUAGE_CODE = "en-us"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_tasks",
    "django_tasks_db",
    "ninja",
    "netweave.web",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "netweave.web.safety.headers",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "netweave.web.pages.shared.workbench",
            ],
        },
    },
]

DATABASES = {"default": _database()}
STORAGES = {
    "default": _file_storage(),
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "ENQUEUE_ON_COMMIT": False}}

STATIC_URL = "/static/"
STATICFILES_DIRS = [folder for folder in (PACKAGE.parent / "viewer" / "static",) if folder.is_dir()]
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 0  # the names stay over releases; browsers ask, and are told that nothing has changed

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "new"
LOGOUT_REDIRECT_URL = "new"

SESSION_COOKIE_AGE = 365 * 24 * 3600
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = OPTIONS.https
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if OPTIONS.https else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if OPTIONS.proxy else None
SECURE_REFERRER_POLICY = "same-origin"
CSRF_TRUSTED_ORIGINS = [f"https://{host.lstrip('.')}" for host in OPTIONS.hosts if "*" not in host]
CSRF_FAILURE_VIEW = "netweave.web.pages.shared.csrf_failure"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024
"""Of forms and JSON; files arrive as streams with a bound of their own (``http.uploads``)."""

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
