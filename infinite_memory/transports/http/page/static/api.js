// Shows the OpenAPI document of this daemon. Nothing is validated elsewhere, and a token that is typed stays in the tab.
"use strict";
window.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
});
