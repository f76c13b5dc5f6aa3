// What htmx does not do by itself: live updates, saying that the connection is lost, and files that are dropped.
"use strict";
(() => {
  const banner = () => document.getElementById("connection");
  let problem = "";

  const say = (text, login) => {
    const shown = banner();
    if (!shown) return;
    problem = text;
    shown.replaceChildren(document.createTextNode(text));
    if (login) {
      const link = document.createElement("a");
      link.href = "/page/login";
      link.target = "_blank";
      link.rel = "noopener";
      link.textContent = "Log in (in another tab)";
      shown.append(link);
    }
    shown.hidden = text === "";
  };

  // A login in another tab has another CSRF token: the forms that stand here take it over, with all that was typed.
  const renew = async () => {
    const reply = await fetch("/page/csrf", { cache: "no-store" });
    if (reply.status === 401) return say("Your login has ended. What you typed stays here.", true);
    if (!reply.ok) return;
    const token = await reply.text();
    for (const field of document.querySelectorAll('input[name="csrf"]')) field.value = token;
    say("");
    listen();
  };

  // A question that somebody sent, by a key or a click, is a use of what it finds; what is shown while they type, or again, is none.
  document.addEventListener("htmx:configRequest", (event) => {
    const cause = event.detail.triggeringEvent;
    if (event.detail.elt.id === "search" && cause && cause.type === "submit" && cause.isTrusted) event.detail.parameters.set("sent", "yes");
  });

  // Live updates. A view that can be asked for again names its form in data-refresh.
  let stream = null;
  let timer = 0;
  let wasAsked = false;  // by a click; news that come before it is done do not take it back
  let leaving = null;  // the request for the next view: htmx forgets that it leads there where its link is replaced meanwhile
  let isPressed = false;  // a link that is replaced between press and release is not clicked
  const isBusy = () => isPressed || (leaving !== null && leaving.readyState > 0 && leaving.readyState < 4);
  const refresh = (isAsked = false) => {
    wasAsked ||= isAsked;
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      if (isBusy()) return refresh();
      const isForced = wasAsked;
      wasAsked = false;
      const changed = document.getElementById("changed");
      if (changed) changed.hidden = true;
      for (const place of document.querySelectorAll("[data-refresh]")) {
        if (!isForced && (place.contains(document.activeElement) || place.querySelector("details[open]"))) {
          if (changed) changed.hidden = false;  // somebody reads there: nothing moves under their eyes
          continue;
        }
        const source = place.dataset.refresh;
        if (source.startsWith("#")) {
          if (document.querySelector(source)) window.htmx.trigger(source, "submit");
        } else window.htmx.ajax("GET", source, { target: place, swap: "innerHTML" });
      }
    }, 200);
  };
  document.addEventListener("htmx:beforeRequest", (event) => { if (event.detail.boosted) leaving = event.detail.xhr; });
  for (const [name, is] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) {
    document.addEventListener(name, () => { if (is) isPressed = true; else window.setTimeout(() => { isPressed = false; }, 0); }, true);
  }
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!isBusy() || !event.detail.target.matches("[data-refresh]")) return;
    event.detail.shouldSwap = false;
    refresh();
  });
  const listen = () => {
    const address = document.body.dataset.live;
    if (!address || document.hidden || (stream && stream.readyState !== EventSource.CLOSED)) return;
    stream = new EventSource(address);
    let greeted = false;
    stream.addEventListener("hello", () => {
      if (problem) { say(""); refresh(); }
      if (greeted) refresh();
      greeted = true;
    });
    stream.addEventListener("memory", () => refresh());
    stream.addEventListener("ended", () => { close(); renew(); });
    stream.addEventListener("error", () => {
      if (document.hidden) return;
      say("The connection is lost; trying again. What you typed stays here.");
      if (stream && stream.readyState === EventSource.CLOSED) { close(); window.setTimeout(() => renew().catch(later), 1000); }
    });
  };
  const later = () => window.setTimeout(() => renew().catch(later), 2000);
  const close = () => { if (stream) { stream.close(); stream = null; } };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return close();  // a browser opens six connections to a host, so a hidden page gives its own up
    if (problem) renew().catch(later); else { listen(); refresh(); }
  });
  window.addEventListener("pagehide", close);
  document.addEventListener("click", (event) => { if (event.target.closest("#changed button")) refresh(true); });

  document.addEventListener("htmx:sendError", () => say("The connection is lost; nothing was sent. What you typed stays here."));
  document.addEventListener("htmx:timeout", () => say("No answer came. What you typed stays here; look whether it was done before you try again."));
  document.addEventListener("htmx:responseError", (event) => {
    const request = event.detail.xhr;
    if (request.status === 401) return say("Your login has ended. What you typed stays here.", true);
    const said = new DOMParser().parseFromString(request.responseText, "text/html").querySelector('[role="alert"]');
    say(said ? said.textContent : `Not done (${request.status}).`);
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    const button = event.detail.elt.matches("form") && event.detail.requestConfig.verb === "post" && event.detail.elt.querySelector("button:not([type])");
    if (button) button.disabled = true;
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.detail.elt.matches("form")) return;
    for (const button of event.detail.elt.querySelectorAll("button[disabled]")) button.disabled = false;
  });
  // On a phone the five fields of a filter would push what was found out of sight; the line above the results names it.
  const fold = () => {
    const filters = document.querySelector("details.filters[open]");
    if (filters && window.matchMedia("(max-width: 36rem)").matches) filters.open = false;
  };

  // What is typed before the scripts are loaded is asked for as soon as they are. (A view that replaces another one listens at once:
  // htmx settles it without a delay, so no key falls between and the focus is not moved from a field that somebody entered.)
  const isTyped = (field) => field.options
    ? [...field.options].some((option, at) => option.selected !== (field.querySelector("option[selected]") ? option.defaultSelected : at === 0))
    : field.value !== field.defaultValue;
  const catchUp = () => {
    for (const form of document.querySelectorAll("form[hx-get]")) {
      if ([...form.querySelectorAll("input, select")].some(isTyped)) window.htmx.trigger(form, "submit");
    }
  };
  window.addEventListener("load", catchUp);

  // A new view: reading begins at its heading, at what is wrong or at what was asked for; typing in the field that is there for it.
  document.addEventListener("htmx:afterSettle", (event) => {
    if (!event.detail.boosted) return;
    listen();
    fold();
    const wrong = document.querySelector('[aria-invalid="true"]');
    const named = wrong || document.querySelector("[data-start]");
    const field = document.querySelector("main .banner[role]") ? null : document.querySelector("[autofocus]");
    const start = named || field || document.getElementById("main");
    if (start) start.focus({ preventScroll: true });
    if (named) window.setTimeout(() => named.scrollIntoView({ block: "center" }), 0);  // htmx itself goes to the top after this
  });

  // Files: chosen or dropped, sent as they are.
  const send = (file, zone) => {
    const bar = zone.querySelector("progress"), said = zone.querySelector("[role=status]");
    const request = new XMLHttpRequest();
    request.open("POST", `/page/import/upload?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("X-CSRF-Token", document.querySelector('input[name="csrf"]').value);
    bar.hidden = false;
    said.textContent = `Sending ${file.name}`;
    request.upload.onprogress = (event) => { if (event.lengthComputable) { bar.max = event.total; bar.value = event.loaded; } };
    request.onload = () => {
      if (request.status === 200) window.location.assign(`/page/import?file=${encodeURIComponent(JSON.parse(request.responseText).file)}`);
      else {
        bar.hidden = true;
        const wrong = new DOMParser().parseFromString(request.responseText, "text/html").querySelector('[role="alert"]');
        said.textContent = wrong ? wrong.textContent : `The file was not taken (${request.status}).`;
      }
    };
    request.onerror = () => { bar.hidden = true; said.textContent = "The connection is lost; the file was not taken."; };
    request.send(file);
  };
  // Anywhere in the view: what misses the box would open in the browser instead.
  const zoneFor = (event) => event.dataTransfer && event.dataTransfer.types.includes("Files") ? document.querySelector(".drop") : null;
  document.addEventListener("dragover", (event) => {
    const zone = zoneFor(event);
    if (zone) { event.preventDefault(); zone.classList.add("over"); }
  });
  document.addEventListener("dragleave", (event) => {
    const zone = event.relatedTarget ? null : document.querySelector(".drop");
    if (zone) zone.classList.remove("over");
  });
  document.addEventListener("drop", (event) => {
    const zone = zoneFor(event);
    if (!zone) return;
    event.preventDefault();
    zone.classList.remove("over");
    const files = event.dataTransfer.files;
    if (files.length === 1) send(files[0], zone);
    else zone.querySelector("[role=status]").textContent = "Nothing was sent: one file at a time.";
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches(".drop input[type=file]") && event.target.files.length) send(event.target.files[0], event.target.closest(".drop"));
  });

  listen();
  fold();
})();
