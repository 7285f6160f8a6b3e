// Vercel, Netlify and other platforms whose functions take a Request: deploy it as the one function behind all routes,
// and let the platform's cron call GET /tick. Vercel sends CRON_SECRET as a bearer token by itself.
import { createRoot } from 'tidegate'

const root = createRoot({ jobs: [], env: process.env })

export const GET = (request: Request): Promise<Response> => root.fetch(request)
export const POST = (request: Request): Promise<Response> => root.fetch(request)
